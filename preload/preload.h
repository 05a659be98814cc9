/*
 * What this library has in common for all communicators of a process, from MPI_Init() on.
 */
#ifndef TUTTI_PRELOAD_PRELOAD_H
#define TUTTI_PRELOAD_PRELOAD_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/cpu.h"
#include "base/log.h"
#include "preload/real.h"

/* MPI is faster at all lengths: it copies once, from process to process, and shared memory twice. */
#define PRELOAD_NEVER SIZE_MAX

/*
 * X(symbol, name, bytes from which on tutti is used with two ranks, and with more). Bytes are
 * those of the whole vector: of an allgather, of all results; of an alltoall, of all that a
 * rank sends. Measured: docs/results/mpi-collectives.md.
 */
#define PRELOAD_CALL_MAP(X) \
    X(CALL_ALLGATHER, "Allgather", PRELOAD_NEVER, 65536) \
    X(CALL_ALLGATHERV, "Allgatherv", PRELOAD_NEVER, 65536) \
    X(CALL_ALLREDUCE, "Allreduce", 16384, 16384) \
    X(CALL_ALLTOALL, "Alltoall", PRELOAD_NEVER, PRELOAD_NEVER) \
    X(CALL_BCAST, "Bcast", 16384, 1048576) \
    X(CALL_REDUCE, "Reduce", PRELOAD_NEVER, 262144) \
    X(CALL_REDUCE_SCATTER, "Reduce_scatter", 16384, 65536) \
    X(CALL_REDUCE_SCATTER_BLOCK, "Reduce_scatter_block", 16384, 65536)

enum preload_call {
#define PRELOAD_CALL_ENUM(symbol, name, two, more) symbol,
    PRELOAD_CALL_MAP(PRELOAD_CALL_ENUM)
#undef PRELOAD_CALL_ENUM
    CALL_COUNT
};

/** From how many bytes on tutti is used. */
struct preload_limits {
    size_t two; /* in communicators of two ranks */
    size_t more; /* in larger ones */
    size_t least; /* in any: the smaller of both */
};

struct preload {
    struct real real;
    bool is_found; /* real is filled */
    bool active; /* between MPI_Init() and MPI_Finalize(); equal on all ranks of the world */
    bool counts; /* statistics were asked for */
    struct preload_limits limits[CALL_COUNT]; /* equal on all ranks of the world */
    struct config config;
    struct log log;
    struct cpu_load load; /* what teams begin with; its descriptor is theirs, too */
    MPI_Comm
            progress; /* of this rank alone, without messages: polled so that MPI moves */
    int team_key; /* of communicators: their team */
    int end_key; /* of MPI_COMM_SELF: its deletion begins MPI_Finalize() */
};

/**
 * The process's. MPI's functions have no context that a library in front of it could hang its
 * state on. Written by preload.c, before MPI_Init() returns and in MPI_Finalize().
 */
extern struct preload preload_state __attribute__((visibility("hidden")));

/** The same, its field `real` filled. Any thread. */
const struct preload *preload_get(void);

/** True when a collective is MPI's, whatever its ranks, and nobody counts it. */
static inline bool preload_is_short(enum preload_call call, size_t bytes)
{
    return preload_state.is_found && !preload_state.counts &&
            bytes < preload_state.limits[call].least;
}

/**
 * After MPI_Init(): becomes active, or stays out of the way; on all ranks alike.
 * @return MPI_SUCCESS, or MPI_ERR_OTHER: it was built for another MPI than the program's
 */
int preload_begin(void);

#endif
