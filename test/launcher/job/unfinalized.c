/*
 * Ranks that leave with status 0 without tutti_finalize(); with an argument, the rank of that
 * number leaves before tutti_init().
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    tutti *t;

    rank = rank != NULL ? rank : getenv("PMI_RANK");
    rank = rank != NULL ? rank : getenv("RANK"); /* without an MPI */
    if (argc > 1 && rank != NULL && strcmp(rank, argv[1]) == 0) {
        return 0;
    }
    return tutti_init(&t, NULL) == TUTTI_OK ? 0 : 2;
}
