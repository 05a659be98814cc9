/*
 * The end of MPI.
 */
#ifndef TUTTI_TRANSPORT_MPI_END_H
#define TUTTI_TRANSPORT_MPI_END_H

#include <mpi.h>
#include <time.h>

/**
 * MPI_Finalize, which comes back. That of MPICH before 4.2 disconnects from the peers and then
 * waits for them without looking at its messages (pmodels/mpich#6596), and over UCX a rank
 * that looks at its messages between a peer's disconnecting and its own often waits for ever,
 * in any MPI program. So the ranks meet, and are quiet until all are out of that meeting.
 * Collective over MPI_COMM_WORLD.
 */
static inline void transport_mpi_end(void)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200300
    const struct timespec quiet = { .tv_nsec = 50000000 };

    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)nanosleep(&quiet, NULL);
#endif
    (void)MPI_Finalize();
}

#endif
