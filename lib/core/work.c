/*
 * The table of works, and their state machine.
 */
#include "core/work.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

#define SLAB_WORKS 256u

#define NEXT(state) (1u << (state))
static const unsigned work_transitions[WORK_STATE_COUNT] = {
    [WORK_FREE] = NEXT(WORK_QUEUED),
    [WORK_QUEUED] = NEXT(WORK_ANNOUNCED) | NEXT(WORK_DONE) | NEXT(WORK_FREE),
    [WORK_ANNOUNCED] = NEXT(WORK_AGREED) | NEXT(WORK_DONE),
    [WORK_AGREED] = NEXT(WORK_RUNNING) | NEXT(WORK_DONE),
    [WORK_RUNNING] = NEXT(WORK_DONE),
    [WORK_DONE] = NEXT(WORK_FREE),
};
#undef NEXT

void work_advance(struct work *work, enum work_state to)
{
    const bool is_legal = (work_transitions[work->state] & (1u << to)) != 0;

    assert(is_legal);
    (void)is_legal;
    work->state = to;
}

static bool add_slab(struct work_table *table)
{
    struct work **slabs =
            mem_resize(table->slabs, (size_t)table->slab_count + 1, sizeof *slabs);
    struct work *slab;

    if (slabs == NULL) {
        return false;
    }
    table->slabs = slabs;
    slab = mem_calloc(SLAB_WORKS, sizeof *slab);
    if (slab == NULL) {
        return false;
    }
    for (uint32_t i = SLAB_WORKS; i > 0; i--) {
        slab[i - 1].index = table->slab_count * SLAB_WORKS + i - 1;
        slab[i - 1].next = table->free;
        table->free = &slab[i - 1];
    }
    slabs[table->slab_count++] = slab;
    return true;
}

struct work *work_take(struct work_table *table)
{
    struct work *work;

    if (table->free == NULL && !add_slab(table)) {
        return NULL;
    }
    work = table->free;
    table->free = work->next;
    work->set = NULL;
    work->tensor = NULL;
    work->request = (struct request){ 0 };
    work->input = NULL;
    work->output = NULL;
    work->owns_output = false;
    work->bytes = 0;
    work->priority = 0;
    work->callback = NULL;
    work->user = NULL;
    atomic_store_explicit(&work->cancel_asked, 0, memory_order_relaxed);
    work->status = TUTTI_OK;
    work->error = NULL;
    work->next = NULL;
    atomic_store_explicit(&work->done, 0, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&work->generation, 1, memory_order_release);
    work_advance(work, WORK_QUEUED);
    return work;
}

void work_release(struct work_table *table, struct work *work)
{
    work_advance(work, WORK_FREE);
    mem_free(work->error);
    work->error = NULL;
    /* Pairs with work_is_over(): who still looks at it sees that it is gone. */
    (void)atomic_fetch_add_explicit(&work->generation, 1, memory_order_release);
    work->next = table->free;
    table->free = work;
}

int64_t *work_numbers(struct work *work, size_t count)
{
    const size_t capacity = size_max(count, TUTTI_DIMS_MAX);
    int64_t *grown;

    if (count <= work->number_capacity && work->numbers != NULL) {
        return work->numbers;
    }
    grown = mem_resize(work->numbers, capacity, sizeof *grown);
    if (grown != NULL) {
        work->numbers = grown;
        work->number_capacity = capacity;
    }
    return grown;
}

bool work_parts(struct work *work, size_t count)
{
    struct op_part *grown;

    if (count <= work->part_capacity) {
        return true;
    }
    grown = mem_resize(work->parts, count, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    work->parts = grown;
    work->part_capacity = count;
    return true;
}

void work_table_fini(struct work_table *table)
{
    for (uint32_t s = 0; s < table->slab_count; s++) {
        for (uint32_t i = 0; i < SLAB_WORKS; i++) {
            mem_free(table->slabs[s][i].error);
            mem_free(table->slabs[s][i].numbers);
            mem_free(table->slabs[s][i].parts);
        }
        mem_free(table->slabs[s]);
    }
    mem_free(table->slabs);
    *table = (struct work_table){ 0 };
}

struct work *work_next(const struct work_table *table, uint32_t *position)
{
    while (*position < table->slab_count * SLAB_WORKS) {
        const uint32_t index = (*position)++;
        struct work *work = &table->slabs[index / SLAB_WORKS][index % SLAB_WORKS];

        if (work->state != WORK_FREE) {
            return work;
        }
    }
    return NULL;
}

tutti_request work_handle(const struct work *work)
{
    const uint32_t generation =
            atomic_load_explicit(&work->generation, memory_order_relaxed);

    return (tutti_request)generation << 32 | ((tutti_request)work->index + 1);
}

struct work *work_find(const struct work_table *table, tutti_request request)
{
    const uint64_t index = (request & UINT32_MAX) - 1;
    struct work *work;

    if ((request & UINT32_MAX) == 0 ||
            index >= (uint64_t)table->slab_count * SLAB_WORKS) {
        return NULL;
    }
    work = &table->slabs[index / SLAB_WORKS][index % SLAB_WORKS];
    /* A handle is only ever made of an odd generation, so free works match none. */
    if (work_handle(work) != request || (request >> 32) % 2 == 0 ||
            work->callback != NULL) {
        return NULL;
    }
    return work;
}

bool work_is_over(const struct work *work, tutti_request request)
{
    const uint32_t generation =
            atomic_load_explicit(&work->generation, memory_order_acquire);

    if (generation != (uint32_t)(request >> 32)) {
        return true;
    }
    /* Pairs with the release in completion.c: results are visible once done is. */
    return atomic_load_explicit(&work->done, memory_order_acquire) != 0;
}
