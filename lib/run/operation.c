/*
 * One submitted operation: its states and its request; and the table of all.
 */
#include "run/operation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "device/tickets.h"
#include "run/persistent.h"

#define NEXT(state) (1u << (state))
const unsigned operation_transitions[OPERATION_STATE_COUNT] = {
    [OPERATION_FREE] = NEXT(OPERATION_QUEUED),
    [OPERATION_QUEUED] =
            NEXT(OPERATION_ANNOUNCED) | NEXT(OPERATION_DONE) | NEXT(OPERATION_FREE),
    [OPERATION_ANNOUNCED] = NEXT(OPERATION_AGREED) | NEXT(OPERATION_DONE),
    [OPERATION_AGREED] = NEXT(OPERATION_RUNNING) | NEXT(OPERATION_DONE),
    [OPERATION_RUNNING] = NEXT(OPERATION_ISSUED) | NEXT(OPERATION_DONE),
    [OPERATION_ISSUED] = NEXT(OPERATION_DONE),
    [OPERATION_DONE] = NEXT(OPERATION_FREE),
};
#undef NEXT

static uint32_t generation_of(const struct operation *operation)
{
    return atomic_load_explicit(&operation->generation, memory_order_relaxed);
}

void operation_begin(struct operation *operation, tutti_callback callback, void *user)
{
    const uint32_t generation = generation_of(operation);

    operation->callback.call = callback;
    operation->callback.user = user;
    operation->memory.bytes = 0;
    operation->status = TUTTI_OK;
    operation->next = NULL;
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(
                &operation->memory.lent[i].bytes, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&operation->cancel_asked, 0, memory_order_relaxed);
    /* Release: who sees it pending does not see what the last operation was lent. */
    atomic_store_explicit(&operation->done, OPERATION_PENDING, memory_order_release);
    /* Release: a thread that looks for the last operation sees that it is gone. */
    atomic_store_explicit(&operation->generation,
            generation + (callback == NULL ? OPERATION_WAITED : OPERATION_SILENT),
            memory_order_release);
    operation_advance(operation, OPERATION_QUEUED);
}

bool operation_end(struct operation *operation)
{
    const uint32_t generation = generation_of(operation);

    operation_advance(operation, OPERATION_FREE);
    mem_free(operation->error);
    operation->error = NULL;
    /* Pairs with work_is_over(): who still looks at it sees that it is gone. */
    atomic_store_explicit(&operation->generation,
            (generation | OPERATION_PHASE_MASK) + 1, memory_order_release);
    return !persistent_is_held(operation) || persistent_return(operation);
}

static uint32_t request_generation(tutti_request request)
{
    return (uint32_t)(request >> 32);
}

struct operation *operation_find(
        const struct operation_table *table, tutti_request request)
{
    const uint32_t number = (uint32_t)(request & UINT32_MAX);
    struct operation *operation = number == 0 ? NULL : operation_at(table, number - 1);

    /* Handles are made of operations that are waited for, so others match none. */
    if (operation == NULL || generation_of(operation) != request_generation(request) ||
            (request_generation(request) & OPERATION_PHASE_MASK) != OPERATION_WAITED) {
        return NULL;
    }
    return operation;
}

bool operation_claim(struct operation *operation, tutti_request request)
{
    uint32_t generation = request_generation(request);

    /* Acquire: with operation_unclaim(), of a thread that wanted to consume it before. */
    return atomic_compare_exchange_strong_explicit(&operation->generation, &generation,
            generation | OPERATION_CONSUMED, memory_order_acquire,
            memory_order_relaxed);
}

void operation_unclaim(struct operation *operation)
{
    const uint32_t phases = OPERATION_CONSUMED ^ OPERATION_WAITED;

    /* Pairs with the acquire in operation_claim(). */
    atomic_store_explicit(&operation->generation, generation_of(operation) & ~phases,
            memory_order_release);
}

void operation_ask_cancel(struct operation *operation, tutti_request request)
{
    /*
     * Another thread may consume the request at this moment, and the operation be used again.
     * The engine then sees that it was the one before that was to be cancelled.
     */
    atomic_store_explicit(&operation->cancel_asked, request_generation(request),
            memory_order_relaxed);
}

bool operation_take_cancel(struct operation *operation)
{
    const uint32_t asked =
            atomic_load_explicit(&operation->cancel_asked, memory_order_relaxed);

    /* What comes between these two is announced by `cancels_pending` again. */
    if (asked == 0) {
        return false;
    }
    return atomic_exchange_explicit(&operation->cancel_asked, 0,
                   memory_order_relaxed) == generation_of(operation);
}

/*
 * A persistent request may be submitted meanwhile. Its bytes are the same each time, and are 0
 * until their address is there, so that what is seen was lent to one and the same operation.
 */
bool operation_uses(const struct operation *operation, const char *memory, size_t bytes)
{
    /* Acquire: pairs with operation_begin(); as does that of `done`. */
    const uint32_t generation =
            atomic_load_explicit(&operation->generation, memory_order_acquire);
    const bool is_over = (generation & OPERATION_PHASE_MASK) == OPERATION_IDLE ||
            operation_is_done(operation);
    bool uses = false;

    for (int i = 0; i < 2; i++) {
        const size_t lent = atomic_load_explicit(
                &operation->memory.lent[i].bytes, memory_order_acquire);
        const char *first = atomic_load_explicit(
                &operation->memory.lent[i].memory, memory_order_relaxed);

        uses = uses || (lent > 0 && first < memory + bytes && memory < first + lent);
    }
    return uses && !is_over;
}

bool operation_is_over_or_issued(
        const struct operation *operation, tutti_request request)
{
    return !operation_is_of(operation, request) || operation_is_issued(operation);
}

/* Who waits takes its demand back itself; the engine is only earlier, mostly. */
void operation_demand(struct operation *operation, struct tickets *tickets)
{
    if (operation_is_on_device(operation) && !operation_is_issued(operation) &&
            atomic_exchange_explicit(
                    &operation->on_device.demanded, 1, memory_order_acq_rel) == 0) {
        tickets_demand(tickets);
    }
}

void operation_satisfied(struct operation *operation, struct tickets *tickets)
{
    if (operation_is_on_device(operation) &&
            atomic_exchange_explicit(
                    &operation->on_device.demanded, 0, memory_order_acq_rel) != 0) {
        tickets_satisfy(tickets);
    }
}

void operation_text(const struct operation *operation, char *text, size_t capacity)
{
    const struct request *request = &operation->request;
    const uint64_t step = request->meta.step;
    const int len = snprintf(text, capacity, "%s \"%s\"",
            tutti_collective_name((tutti_collective)request->collective),
            request->name);

    if (step != 0 && len > 0 && (size_t)len < capacity) {
        (void)snprintf(text + len, capacity - (size_t)len, " of step %" PRId64,
                (int64_t)(step - 1));
    }
}

/* ------------------------------------------------------- the table of operations */

/* Slabs that never move, and a pool. */
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
