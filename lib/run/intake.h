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

struct operation;

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
void intake_push(struct intake *intake, struct operation *newest,
        struct operation *oldest, uint64_t count);
/** Takes all, oldest first; NULL when there are none. Engine. */
struct operation *intake_take(struct intake *intake);

#endif
