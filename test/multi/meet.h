/*
 * Meeting points for programs of several ranks, civil to ranks that share a core.
 */
#ifndef TUTTI_TEST_MULTI_MEET_H
#define TUTTI_TEST_MULTI_MEET_H

#include <mpi.h>
#include <sched.h>
#include <stdint.h>

#include "check.h"

/** Returns when all ranks have called it. */
static inline void meet(MPI_Comm comm)
{
    MPI_Request request;
    int done = 0;

    CHECK(MPI_Ibarrier(comm, &request) == MPI_SUCCESS);
    while (done == 0) {
        CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        (void)sched_yield();
    }
}

/** Takes messages that nobody received, so that MPI has none to complain of. */
static inline void drain(MPI_Comm comm)
{
    uint8_t bytes[1 << 16];
    int found = 1;

    meet(comm);
    while (found != 0) {
        CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found,
                      MPI_STATUS_IGNORE) == MPI_SUCCESS);
        if (found != 0) {
            CHECK(MPI_Recv(bytes, (int)sizeof bytes, MPI_BYTE, MPI_ANY_SOURCE,
                          MPI_ANY_TAG, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        }
    }
    meet(comm);
}

#endif
