/*
 * Persistent requests: who may use the operation that a registered tensor owns, without a
 * lock.
 *
 * A registration has an operation of the table for life, and its handle says which. To
 * submit is to take it by one compare-and-swap; it is held until the request is consumed, or
 * the callback is about to run. The word that says so:
 *
 *   generation   the upper half: odd while registered; a handle is of one generation
 *   HELD         the operation is in use
 *   FILLING      a thread has taken it and has not returned from submitting. Who closes it
 *                waits for that, so that what was submitted before is queued before
 *   BORROWED     the name is in flight with an operation from the pool: it was submitted by
 *                name, in a group, or while its last request was not consumed
 *   CLOSED       submissions must look under the lock: the context failed or is finalizing,
 *                or the process set is joined or being destroyed
 *
 * Only what is open and idle is taken without the lock; everything else is for the slow way,
 * which finds the reason. Bits but HELD and FILLING change under the context's lock alone.
 */
#ifndef TUTTI_RUN_PERSISTENT_H
#define TUTTI_RUN_PERSISTENT_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "run/operation.h"

struct process_set;
struct tutti;

/** Any thread, no lock: the operation of a handle, now the caller's to begin; or NULL. */
struct operation *persistent_take(
        const struct operation_table *table, tutti_tensor handle);
/** The submission is queued, or withdrawn, by the thread that has taken it. */
void persistent_filled(struct operation *operation);
/** True for an operation in use by its registration, false for one from the pool. */
static inline bool persistent_is_held(const struct operation *operation);

/* Below: context's lock held. */

/** Registers an idle operation of the pool, closed. @return its handle */
tutti_tensor persistent_begin(struct operation *operation);
/** The registered operation of a handle, or NULL. */
struct operation *persistent_find(
        const struct operation_table *table, tutti_tensor handle);
/** True when the operation is of a registration. */
bool persistent_is_registered(const struct operation *operation);
/** Closes, or opens again; what was submitted before is queued then. */
void persistent_close(struct operation *operation);
void persistent_open(struct operation *operation);
/** True when the name of a closed persistent request is in flight. */
bool persistent_is_busy(const struct operation *operation);
/** The name goes in flight with an operation from the pool; false when it is in flight. */
bool persistent_borrow(struct operation *operation);
/** The name is not in flight any more with an operation from the pool. */
void persistent_restore(struct operation *operation);
/**
 * Unregisters a closed one whose name is not in flight.
 * @return true when the operation is to be put back into the pool; else it is by whoever
 *         consumes its request
 */
TUTTI_MUST_USE bool persistent_end(struct operation *operation);

/**
 * After any change of what submissions are refused for (`failure` and `closing` of the
 * context, `closing` and `joined` of a set): closes or opens all. Whoever submits by a
 * handle has been queued before, or comes to see the change.
 */
void persistent_gate_all(struct tutti *t);
/** The same for one. */
void persistent_gate(const struct tutti *t, struct operation *own);
/** True when a registered tensor of the set is in flight; the set is closing or joined. */
bool persistent_any_busy(const struct tutti *t, const struct process_set *set);
/** persistent_end(), and puts the operation back into the pool where that is due. */
void persistent_give_up(struct tutti *t, struct operation *own);
/** Unregisters those of a set that goes; nothing of it is in flight. */
void persistent_forget(struct tutti *t, const struct process_set *set);
/** TUTTI_ERR_INVALID, with the sentence for a handle that is none. */
tutti_status persistent_unknown(tutti_tensor handle);

/** Bits of the word; the others are in persistent.c. */
#define PERSISTENT_HELD 1u
#define PERSISTENT_GENERATION ((uint64_t)1 << 32) /* odd generations are registered */

static inline bool persistent_is_held(const struct operation *operation)
{
    /* Relaxed: the caller has the operation, so nobody else changes the answer. */
    return (atomic_load_explicit(&operation->persistent, memory_order_relaxed) &
                   PERSISTENT_HELD) != 0;
}

/**
 * Any thread, by operation_end(): an operation that is held is not in use any more.
 * @return true when nobody has it: it was unregistered meanwhile
 */
static inline bool persistent_return(struct operation *operation)
{
    /* Pairs with the acquire in persistent_take(). */
    const uint64_t before = atomic_fetch_and_explicit(
            &operation->persistent, ~(uint64_t)PERSISTENT_HELD, memory_order_release);

    return (before & PERSISTENT_GENERATION) == 0;
}

#endif
