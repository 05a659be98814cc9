/*
 * Memory for tasks, reused from one to the next, so that the steady state neither
 * allocates nor touches fresh pages: a large MPI_Allreduce loses more time to page
 * faults of its temporary buffer than to the reduction.
 */
#ifndef TUTTI_OPS_P2P_SCRATCH_H
#define TUTTI_OPS_P2P_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#define SCRATCH_CLASSES 48

/** A piece of memory; `bytes` lies on a boundary of 64. */
struct scratch {
    _Alignas(64) struct scratch *next; /* while free */
    int class_index; /* holds at least 2^class_index bytes */
    _Alignas(64) uint8_t bytes[];
};

/** Free pieces by size class. Zeroed is valid. It holds as much as was ever in use. */
struct scratch_pool {
    struct scratch *free[SCRATCH_CLASSES];
};

/** A piece of at least `bytes`; NULL when out of memory. */
struct scratch *scratch_take(struct scratch_pool *pool, size_t bytes);
/** Gives a piece back; NULL is allowed. */
void scratch_give(struct scratch_pool *pool, struct scratch *scratch);
/** Frees all pieces that were given back. */
void scratch_pool_fini(struct scratch_pool *pool);

#endif
