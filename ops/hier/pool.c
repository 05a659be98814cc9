/*
 * A list of spare blocks. Each begins with its header, on a cache line of its own.
 */
#include "ops/hier/pool.h"

#include "base/mem.h"

#define HEADER_BYTES ((size_t)64)
#define BLOCK_BYTES_MIN ((size_t)1024)

struct hier_block {
    struct hier_block *next;
    size_t bytes; /* behind the header */
};

static void block_free(const struct hier_pool *pool, struct hier_block *block)
{
    if (pool->alloc != NULL) {
        pool->give_back(pool->user, block);
    } else {
        mem_free(block);
    }
}

static struct hier_block *block_new(struct hier_pool *pool, size_t bytes)
{
    size_t capacity = size_max(pool->bytes, BLOCK_BYTES_MIN);
    struct hier_block *block;

    while (capacity < bytes && capacity <= SIZE_MAX / 4) {
        capacity *= 2;
    }
    if (capacity < bytes) {
        return NULL;
    }
    block = pool->alloc != NULL ? pool->alloc(pool->user, HEADER_BYTES + capacity)
                                : mem_alloc_aligned(HEADER_BYTES + capacity);
    if (block != NULL) {
        block->bytes = capacity;
        pool->bytes = capacity;
    }
    return block;
}

void *hier_pool_take(struct hier_pool *pool, size_t bytes)
{
    struct hier_block *block = pool->spare;

    if (block != NULL) {
        pool->spare = block->next;
        if (block->bytes < bytes) {
            block_free(pool, block);
            block = NULL;
        }
    }
    if (block == NULL) {
        block = block_new(pool, bytes);
    }
    return block != NULL ? (char *)block + HEADER_BYTES : NULL;
}

void hier_pool_give(struct hier_pool *pool, void *memory)
{
    struct hier_block *block;

    if (memory == NULL) {
        return;
    }
    block = (struct hier_block *)(void *)((char *)memory - HEADER_BYTES);
    block->next = pool->spare;
    pool->spare = block;
}

void hier_pool_fini(struct hier_pool *pool)
{
    while (pool->spare != NULL) {
        struct hier_block *block = pool->spare;

        pool->spare = block->next;
        block_free(pool, block);
    }
}
