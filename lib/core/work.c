/*
 * The table of works, and their state machine.
 */
#include "core/work.h"

#include <assert.h>

#include "base/mem.h"
#include "core/lease.h"

#define SLAB_WORKS 256u

#define NEXT(state) (1u << (state))
static const unsigned work_transitions[WORK_STATE_COUNT] = {
    [WORK_FREE] = NEXT(WORK_QUEUED),
    [WORK_QUEUED] = NEXT(WORK_ANNOUNCED) | NEXT(WORK_DONE) | NEXT(WORK_FREE),
    [WORK_ANNOUNCED] = NEXT(WORK_AGREED) | NEXT(WORK_BEGUN) | NEXT(WORK_DONE),
    [WORK_AGREED] = NEXT(WORK_RUNNING) | NEXT(WORK_DONE),
    [WORK_BEGUN] = NEXT(WORK_ANNOUNCED) | NEXT(WORK_RUNNING) | NEXT(WORK_DONE),
    [WORK_RUNNING] = NEXT(WORK_ISSUED) | NEXT(WORK_DONE),
    [WORK_ISSUED] = NEXT(WORK_DONE),
    [WORK_DONE] = NEXT(WORK_FREE),
};
#undef NEXT

void work_advance(struct work *work, enum work_state to)
{
    const bool is_legal = (work_transitions[work_state(work)] & (1u << to)) != 0;

    assert(is_legal);
    (void)is_legal;
    /* Relaxed: whoever hands a work on publishes it by other means. */
    atomic_store_explicit(&work->state, to, memory_order_relaxed);
}

/* Slab s holds SLAB_WORKS << s works, those from SLAB_WORKS * (2^s - 1) on. */
static uint32_t slab_first(uint32_t slab)
{
    return SLAB_WORKS * ((1u << slab) - 1);
}

static uint32_t slab_of(uint32_t index)
{
    return 31 - (uint32_t)__builtin_clz(index / SLAB_WORKS + 1);
}

static bool add_slab(struct work_table *table)
{
    const uint32_t number =
            atomic_load_explicit(&table->slab_count, memory_order_relaxed);
    const uint32_t count = SLAB_WORKS << number;
    struct work *slab;

    if (number == WORK_SLABS_MAX) {
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
    /* Pairs with the acquire in work_at(): the works are filled in. */
    atomic_store_explicit(&table->slabs[number], slab, memory_order_release);
    atomic_store_explicit(&table->slab_count, number + 1, memory_order_relaxed);
    return true;
}

struct work *work_at(const struct work_table *table, uint64_t index)
{
    struct work *slab;
    uint32_t number;

    if (index >= slab_first(WORK_SLABS_MAX)) {
        return NULL;
    }
    number = slab_of((uint32_t)index);
    /* Pairs with the release in add_slab(). */
    slab = atomic_load_explicit(&table->slabs[number], memory_order_acquire);
    return slab == NULL ? NULL : &slab[(uint32_t)index - slab_first(number)];
}

struct work *work_take(struct work_table *table)
{
    struct work *work;

    if (table->free == NULL && !add_slab(table)) {
        return NULL;
    }
    work = table->free;
    table->free = work->next;
    return work;
}

void work_put_back(struct work_table *table, struct work *work)
{
    work->next = table->free;
    table->free = work;
}

static uint32_t generation_of(const struct work *work)
{
    return atomic_load_explicit(&work->generation, memory_order_relaxed);
}

void work_begin(struct work *work, tutti_callback callback, void *user)
{
    const uint32_t generation = generation_of(work);

    work->callback = callback;
    work->user = user;
    work->bytes = 0;
    work->status = TUTTI_OK;
    work->next = NULL;
    atomic_store_explicit(&work->cancel_asked, 0, memory_order_relaxed);
    atomic_store_explicit(&work->done, WORK_PENDING, memory_order_relaxed);
    /* Release: a thread that looks for the last operation sees that it is gone. */
    atomic_store_explicit(&work->generation,
            generation + (callback == NULL ? WORK_WAITED : WORK_SILENT),
            memory_order_release);
    work_advance(work, WORK_QUEUED);
}

bool work_end(struct work *work)
{
    const uint32_t generation = generation_of(work);

    work_advance(work, WORK_FREE);
    mem_free(work->error);
    work->error = NULL;
    /* Pairs with work_is_over(): who still looks at it sees that it is gone. */
    atomic_store_explicit(&work->generation, (generation | WORK_PHASE_MASK) + 1,
            memory_order_release);
    return lease_return(work);
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
    uint32_t position = 0;
    struct work *work;

    while ((work = work_next(table, &position)) != NULL) {
        mem_free(work->error);
        mem_free(work->numbers);
        mem_free(work->parts);
    }
    for (uint32_t s = 0; s < WORK_SLABS_MAX; s++) {
        mem_free(atomic_load_explicit(&table->slabs[s], memory_order_relaxed));
        atomic_store_explicit(&table->slabs[s], NULL, memory_order_relaxed);
    }
    atomic_store_explicit(&table->slab_count, 0, memory_order_relaxed);
    table->free = NULL;
}

struct work *work_next(const struct work_table *table, uint32_t *position)
{
    return work_at(table, (*position)++);
}

tutti_request work_handle(const struct work *work)
{
    return (tutti_request)generation_of(work) << 32 | ((tutti_request)work->index + 1);
}

static uint32_t request_generation(tutti_request request)
{
    return (uint32_t)(request >> 32);
}

struct work *work_find(const struct work_table *table, tutti_request request)
{
    const uint32_t number = (uint32_t)(request & UINT32_MAX);
    struct work *work = number == 0 ? NULL : work_at(table, number - 1);

    /* Handles are made of works that are waited for, so others match none. */
    if (work == NULL || generation_of(work) != request_generation(request) ||
            (request_generation(request) & WORK_PHASE_MASK) != WORK_WAITED) {
        return NULL;
    }
    return work;
}

bool work_claim(struct work *work, tutti_request request)
{
    uint32_t generation = request_generation(request);

    /* Acquire: with work_unclaim(), of a thread that wanted to consume it before. */
    return atomic_compare_exchange_strong_explicit(&work->generation, &generation,
            generation | WORK_CONSUMED, memory_order_acquire, memory_order_relaxed);
}

void work_unclaim(struct work *work)
{
    const uint32_t phases = WORK_CONSUMED ^ WORK_WAITED;

    /* Pairs with the acquire in work_claim(). */
    atomic_store_explicit(
            &work->generation, generation_of(work) & ~phases, memory_order_release);
}

void work_ask_cancel(struct work *work, tutti_request request)
{
    /*
     * Another thread may consume the request at this moment, and the work be used again.
     * The engine then sees that it was the one before that was to be cancelled.
     */
    atomic_store_explicit(
            &work->cancel_asked, request_generation(request), memory_order_relaxed);
}

bool work_take_cancel(struct work *work)
{
    const uint32_t asked =
            atomic_load_explicit(&work->cancel_asked, memory_order_relaxed);

    /* What comes between these two is announced by `cancels_pending` again. */
    if (asked == 0) {
        return false;
    }
    return atomic_exchange_explicit(&work->cancel_asked, 0, memory_order_relaxed) ==
            generation_of(work);
}

bool work_is_of(const struct work *work, tutti_request request)
{
    /* Acquire: with work_end(), of whoever consumes it. */
    return atomic_load_explicit(&work->generation, memory_order_acquire) ==
            request_generation(request);
}

bool work_is_over(const struct work *work, tutti_request request)
{
    return !work_is_of(work, request) || work_is_done(work);
}

bool work_is_over_or_issued(const struct work *work, tutti_request request)
{
    return !work_is_of(work, request) || work_is_issued(work);
}
