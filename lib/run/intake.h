/*
 * The intake: submissions on their way from any thread to the engine, without a lock.
 *
 * A stack: submitters push with a compare-and-swap, the engine takes all at once and turns
 * them round, so that they come in the order in which they were pushed. Nothing is popped
 * alone, so there is no ABA.
 */
#ifndef TUTTI_RUN_INTAKE_H
#define TUTTI_RUN_INTAKE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/mem.h"
#include "run/operation.h"

/** Zeroed is valid. */
struct intake {
    _Alignas(MEM_CACHE_LINE) _Atomic(struct operation *)
            newest; /* over next, to older ones */
    _Atomic uint64_t
            count; /* operations ever pushed, counted before they are            */
};

/**
 * Adds a chain of `count` operations, over next from the newest to the oldest; they stay
 * together. From then on they are the engine's. Any thread.
 */
static inline void intake_push(struct intake *intake, struct operation *newest,
        struct operation *oldest, uint64_t count)
{
    struct operation *before;

    /*
     * Counted first, so that the engine cannot end more than was counted. Sequentially
     * consistent against the count of waiters: see driver_leave().
     */
    (void)atomic_fetch_add_explicit(&intake->count, count, memory_order_seq_cst);
    before = atomic_load_explicit(&intake->newest, memory_order_relaxed);
    do {
        oldest->next = before;
        /* Pairs with the acquire in intake_take(): the operations are filled in. */
    } while (!atomic_compare_exchange_weak_explicit(&intake->newest, &before, newest,
            memory_order_release, memory_order_relaxed));
}

/** Takes all, oldest first; NULL when there are none. Engine. */
static inline struct operation *intake_take(struct intake *intake)
{
    struct operation *newest;
    struct operation *oldest = NULL;

    /* A look first, because a pass that finds nothing need not own the line. */
    if (atomic_load_explicit(&intake->newest, memory_order_relaxed) == NULL) {
        return NULL;
    }
    /* Pairs with the release in intake_push(), of each: they all are exchanges. */
    newest = atomic_exchange_explicit(&intake->newest, NULL, memory_order_acquire);
    while (newest != NULL) {
        struct operation *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

#endif
