/*
 * Joining a job through an MPI communicator of the caller.
 */
#ifndef TUTTI_MPI_H
#define TUTTI_MPI_H

#include <mpi.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/**
 * As tutti_init(), over the ranks of a communicator of the caller. The communicator is
 * duplicated (the caller may free or use it at once) and MPI is never finalized by
 * tutti. Collective over comm. MPI must be initialised; below MPI_THREAD_MULTIPLE
 * there is no background thread and the calling thread must be the one that makes all
 * MPI calls of the process.
 * @param comm  an intra-communicator; its ranks become the ranks of the world
 * @return as tutti_init(); TUTTI_ERR_INVALID also for MPI_COMM_NULL and
 *         inter-communicators
 */
TUTTI_MUST_USE tutti_status tutti_init_mpi(
        tutti **t, MPI_Comm comm, const tutti_config *config);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
