/*
 * Blocks of memory that batches use one after the other. They all grow to what the
 * largest batch needed, so that after a few batches nothing is allocated any more.
 */
#ifndef TUTTI_OPS_HIER_POOL_H
#define TUTTI_OPS_HIER_POOL_H

#include <stddef.h>

struct hier_block;

struct hier_pool {
    /* Where blocks come from; on boundaries of 64 bytes. NULL: the heap. */
    void *(*alloc)(void *user, size_t bytes);
    void (*give_back)(void *user, void *memory);
    void *user;
    struct hier_block *spare; /* not in use; owned */
    size_t bytes; /* of the largest block so far */
};

/** A block on a boundary of 64 bytes; NULL: out of memory. Its contents are anything. */
void *hier_pool_take(struct hier_pool *pool, size_t bytes);
/** Gives a block back to the pool; NULL is allowed. */
void hier_pool_give(struct hier_pool *pool, void *memory);
/** Frees the blocks that were given back. */
void hier_pool_fini(struct hier_pool *pool);

#endif
