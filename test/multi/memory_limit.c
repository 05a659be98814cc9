/*
 * Ranks in a memory cgroup: what is asked for beyond its limit is an error of the call, of
 * all ranks at the same time, and the kernel kills nobody.
 */
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "check.h"

enum {
    PIECE = 8 << 20,
    PIECES_MAX = 256, /* more than there is room for */
    HALF = 256 << 20 /* of the cgroup's limit */
};

/* All that there is; the ranks do so at the same time. */
static int fill(tutti *t, void *pieces[PIECES_MAX])
{
    int count = 0;
    tutti_status status = TUTTI_OK;

    while (count < PIECES_MAX && status == TUTTI_OK) {
        status = tutti_alloc(t, PIECE, TUTTI_HOST, &pieces[count]);
        count += status == TUTTI_OK ? 1 : 0;
    }
    CHECK(status == TUTTI_ERR_NO_MEMORY);
    return count;
}

static void free_all(tutti *t, void *pieces[PIECES_MAX], int count)
{
    for (int i = 0; i < count; i++) {
        CHECK(tutti_free(t, pieces[i]) == TUTTI_OK);
    }
}

/* The inputs of all ranks take half of the memory: there is no room for an output. */
static void gather_too_much(tutti *t)
{
    const int64_t rows = HALF / tutti_size(t);
    tutti_request request = TUTTI_REQUEST_NULL;
    void *input;

    CHECK(tutti_alloc(t, (size_t)rows, TUTTI_HOST, &input) == TUTTI_OK);
    CHECK(tutti_barrier(t, "all have their input", NULL) == TUTTI_OK);
    CHECK(tutti_allgather_async(t, "too much", input, NULL, rows, 1, NULL, TUTTI_UINT8,
                  NULL, &request) == TUTTI_OK);
    CHECK(tutti_wait(t, &request, TUTTI_FOREVER) != TUTTI_OK);
    CHECK(strstr(tutti_last_error(), "bytes of output of allgather") != NULL);
}

/* MPI is the program's: in a job that has failed tutti's end waits only so long for the others. */
int main(int argc, char **argv)
{
    void *pieces[PIECES_MAX];
    void *all;
    tutti *t;
    int count;
    int level;

    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    CHECK(tutti_init(&t, NULL) == TUTTI_OK);
    CHECK(tutti_alloc(t, (size_t)4 << 30, TUTTI_HOST, &all) == TUTTI_ERR_NO_MEMORY);
    CHECK(strstr(tutti_last_error(), "no host memory for 4294967296 bytes") != NULL);
    count = fill(t, pieces);
    CHECK(count > 0);
    free_all(t, pieces, count);
    CHECK(tutti_barrier(t, "freed", NULL) == TUTTI_OK);
    gather_too_much(t);
    if (tutti_finalize(t) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
    }
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
