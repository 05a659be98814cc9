/*
 * The table of operations: slabs that never move, and a pool.
 */
#include "base/mem.h"
#include "run/operation.h"

#define SLAB_OPERATIONS 256u

/* Slab s holds SLAB_OPERATIONS << s operations, those from SLAB_OPERATIONS * (2^s - 1) on. */
static uint32_t slab_first(uint32_t slab)
{
    return SLAB_OPERATIONS * ((1u << slab) - 1);
}

static uint32_t slab_of(uint32_t index)
{
    return 31 - (uint32_t)__builtin_clz(index / SLAB_OPERATIONS + 1);
}

static bool add_slab(struct operation_table *table)
{
    const uint32_t number =
            atomic_load_explicit(&table->slab_count, memory_order_relaxed);
    const uint32_t count = SLAB_OPERATIONS << number;
    struct operation *slab;

    if (number == OPERATION_SLABS_MAX) {
        return false;
    }
    slab = mem_alloc_aligned(count * sizeof *slab);
    if (slab == NULL) {
        return false;
    }
    for (uint32_t i = count; i > 0; i--) {
        slab[i - 1].index = slab_first(number) + i - 1;
        slab[i - 1].next = table->free;
        table->free = &slab[i - 1];
    }
    /* Pairs with the acquire in operation_at(): the operations are filled in. */
    atomic_store_explicit(&table->slabs[number], slab, memory_order_release);
    atomic_store_explicit(&table->slab_count, number + 1, memory_order_relaxed);
    return true;
}

struct operation *operation_at(const struct operation_table *table, uint64_t index)
{
    struct operation *slab;
    uint32_t number;

    if (index >= slab_first(OPERATION_SLABS_MAX)) {
        return NULL;
    }
    number = slab_of((uint32_t)index);
    /* Pairs with the release in add_slab(). */
    slab = atomic_load_explicit(&table->slabs[number], memory_order_acquire);
    return slab == NULL ? NULL : &slab[(uint32_t)index - slab_first(number)];
}

struct operation *operation_take(struct operation_table *table)
{
    struct operation *operation;

    if (table->free == NULL && !add_slab(table)) {
        return NULL;
    }
    operation = table->free;
    table->free = operation->next;
    return operation;
}

void operation_put_back(struct operation_table *table, struct operation *operation)
{
    operation->next = table->free;
    table->free = operation;
}

void operation_table_fini(struct operation_table *table)
{
    uint32_t position = 0;
    struct operation *operation;

    while ((operation = operation_next(table, &position)) != NULL) {
        mem_free(operation->error);
        mem_free(operation->numbers.list);
        mem_free(operation->parts.list);
    }
    for (uint32_t s = 0; s < OPERATION_SLABS_MAX; s++) {
        mem_free(atomic_load_explicit(&table->slabs[s], memory_order_relaxed));
        atomic_store_explicit(&table->slabs[s], NULL, memory_order_relaxed);
    }
    atomic_store_explicit(&table->slab_count, 0, memory_order_relaxed);
    table->free = NULL;
}

struct operation *operation_next(
        const struct operation_table *table, uint32_t *position)
{
    return operation_at(table, (*position)++);
}
