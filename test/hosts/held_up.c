/*
 * The end of MPI where the last rank is held up while it looks at its messages, as on a busy
 * machine: it has met the others, and still looks long after they have gone on.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/fabric/mpi/mpi_end.h"

enum {
    HANG_SECONDS = 1000,
    HELD_UP_MS = 300
};

static void hold_up(void)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    int rank = 0;
    int size = 0;
    int found = 0;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; rank == size - 1 && i < HELD_UP_MS; i++) {
        (void)nanosleep(&moment, NULL);
        (void)PMPI_Iprobe(0, 0, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
}

int MPI_Barrier(MPI_Comm comm)
{
    const int code = PMPI_Barrier(comm);

    hold_up();
    return code;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    const int code = PMPI_Iprobe(source, tag, comm, flag, status);

    hold_up();
    return code;
}

int main(int argc, char **argv)
{
    int level = 0;

    (void)alarm(HANG_SECONDS);
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)PMPI_Barrier(MPI_COMM_WORLD);
    mpi_end(getenv("PMI_FD"));
    return 0;
}
