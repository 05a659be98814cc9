/*
 * The MPI library's own functions, behind those that this library puts in front of them.
 *
 * Both names of each, MPI_x and PMPI_x, are ours: Open MPI's Fortran interfaces call PMPI_x.
 */
#ifndef TUTTI_PRELOAD_REAL_H
#define TUTTI_PRELOAD_REAL_H

#include <mpi.h>
#include <stdbool.h>

/** Function pointers, filled by real_find(). */
struct real {
    int (*allgather)(
            const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    int (*allgatherv)(const void *, int, MPI_Datatype, void *, const int *, const int *,
            MPI_Datatype, MPI_Comm);
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*alltoall)(
            const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    int (*bcast)(void *, int, MPI_Datatype, int, MPI_Comm);
    int (*init)(int *, char ***);
    int (*init_thread)(int *, char ***, int, int *);
    int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
    int (*reduce_scatter)(
            const void *, void *, const int *, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*reduce_scatter_block)(
            const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
};

/** Finds them in the libraries behind this one. @return false: there is no MPI */
bool real_find(struct real *real);

#endif
