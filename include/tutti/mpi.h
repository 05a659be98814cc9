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
 * Like tutti_init(), but over the ranks of a communicator. Collective over comm. MPI must
 * be initialised. tutti duplicates the communicator, so the caller may use or free it at
 * once. tutti does not finalize MPI unless an earlier tutti_init() initialised it. Below
 * MPI_THREAD_MULTIPLE there is no background thread, and the calling thread must be the
 * one that makes all MPI calls of the process. The program links the plug-in of its MPI:
 * pkg-config --libs tutti-mpi, or tutti::mpi in CMake.
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
