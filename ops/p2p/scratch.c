/*
 * Memory for tasks, in size classes of powers of two.
 */
#include "ops/p2p/scratch.h"

#include "base/mem.h"

static int class_of(size_t bytes)
{
    int class_index = 8;

    while (class_index < SCRATCH_CLASSES && ((size_t)1 << class_index) < bytes) {
        class_index++;
    }
    return class_index;
}

struct scratch *scratch_take(struct scratch_pool *pool, size_t bytes)
{
    int class_index = class_of(bytes);
    struct scratch *scratch;

    if (class_index >= SCRATCH_CLASSES) {
        return NULL;
    }
    scratch = pool->free[class_index];
    if (scratch != NULL) {
        pool->free[class_index] = scratch->next;
        return scratch;
    }
    scratch = mem_alloc_aligned(sizeof *scratch + ((size_t)1 << class_index));
    if (scratch != NULL) {
        scratch->class_index = class_index;
    }
    return scratch;
}

void scratch_give(struct scratch_pool *pool, struct scratch *scratch)
{
    if (scratch == NULL) {
        return;
    }
    scratch->next = pool->free[scratch->class_index];
    pool->free[scratch->class_index] = scratch;
}

void scratch_pool_fini(struct scratch_pool *pool)
{
    for (int i = 0; i < SCRATCH_CLASSES; i++) {
        while (pool->free[i] != NULL) {
            struct scratch *scratch = pool->free[i];

            pool->free[i] = scratch->next;
            mem_free(scratch);
        }
    }
}
