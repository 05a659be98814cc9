/*
 * MPI's collectives as batches of tutti's data plane.
 *
 * Each function takes the arguments of the MPI function of its name and decides, alike on all
 * ranks, whether the collective is tutti's. Facts for that are only those that MPI makes equal
 * on all ranks: bytes by type signatures, operations, the communicator, roots. Counts and types
 * may differ between ranks as long as the signatures agree, so data of types that do not lie in
 * one piece are packed. Arguments that MPI would refuse are left to MPI, which says so.
 *
 * True: it is done, with call->result. False: it is MPI's, and nothing has happened.
 */
#ifndef TUTTI_PRELOAD_COLLECTIVES_H
#define TUTTI_PRELOAD_COLLECTIVES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/datatypes.h"
#include "preload/preload.h"

/** A call of the application. */
struct call {
    const struct preload *preload;
    enum preload_call which;
    size_t bytes; /* as PRELOAD_CALL_MAP counts them; 0: not counted yet, or refused */
    int64_t began_ns; /* where statistics are wanted */
    int result; /* of MPI */
};

/** What a reduction is of. */
struct reduction {
    const void *input; /* or MPI_IN_PLACE */
    void *output;
    MPI_Datatype type;
    MPI_Op op;
};

bool collective_allreduce(
        struct call *call, const struct reduction *reduction, int count, MPI_Comm comm);
bool collective_reduce(struct call *call, const struct reduction *reduction, int count,
        int root, MPI_Comm comm);
/** counts: of each rank. */
bool collective_reduce_scatter(struct call *call, const struct reduction *reduction,
        const int *counts, MPI_Comm comm);
bool collective_reduce_scatter_block(
        struct call *call, const struct reduction *reduction, int count, MPI_Comm comm);
bool collective_bcast(
        struct call *call, const struct elements *elements, int root, MPI_Comm comm);
/** output: what comes from one rank; so it is in alltoall. */
bool collective_allgather(struct call *call, const struct elements *input,
        const struct elements *output, MPI_Comm comm);
/** counts and places, in elements: of each rank. */
bool collective_allgatherv(struct call *call, const struct elements *input,
        void *output, const int *counts, const int *places, MPI_Datatype type,
        MPI_Comm comm);
bool collective_alltoall(struct call *call, const struct elements *input,
        const struct elements *output, MPI_Comm comm);

#endif
