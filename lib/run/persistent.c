/*
 * The word of a persistent request. What pairs with what:
 *
 *   persistent_return()   releases    persistent_take() acquires    the operation is the next one's
 *   persistent_open()     releases    persistent_take() acquires    what was registered
 *   persistent_filled()   releases    persistent_close() acquires   the submission is in the queue
 */
#include "run/persistent.h"

#include <inttypes.h>
#include <sched.h>

#include "run/context.h"

#define FILLING 2u
#define BORROWED 4u
#define CLOSED 8u

static uint64_t generation_bits(uint64_t word)
{
    return word & ~(uint64_t)UINT32_MAX;
}

static bool is_registered(uint64_t word)
{
    return (word & PERSISTENT_GENERATION) != 0;
}

static struct operation *operation_of(
        const struct operation_table *table, tutti_tensor handle)
{
    const uint32_t number = (uint32_t)(handle & UINT32_MAX);

    return number == 0 || !is_registered(handle) ? NULL
                                                 : operation_at(table, number - 1);
}

struct operation *persistent_take(
        const struct operation_table *table, tutti_tensor handle)
{
    struct operation *operation = operation_of(table, handle);
    uint64_t idle = generation_bits(handle);

    if (operation == NULL) {
        return NULL;
    }
    /* Acquire: see above. Failure tells nothing; the slow way looks for itself. */
    return atomic_compare_exchange_strong_explicit(&operation->persistent, &idle,
                   idle | PERSISTENT_HELD | FILLING, memory_order_acquire,
                   memory_order_relaxed)
            ? operation
            : NULL;
}

void persistent_filled(struct operation *operation)
{
    (void)atomic_fetch_and_explicit(
            &operation->persistent, ~(uint64_t)FILLING, memory_order_release);
}

tutti_tensor persistent_begin(struct operation *operation)
{
    const uint64_t word =
            atomic_load_explicit(&operation->persistent, memory_order_relaxed);
    const uint64_t generation = generation_bits(word) + PERSISTENT_GENERATION;

    /* Relaxed: nobody knows the handle, and nobody takes it before persistent_open(). */
    atomic_store_explicit(
            &operation->persistent, generation | CLOSED, memory_order_relaxed);
    return generation | ((uint64_t)operation->index + 1);
}

struct operation *persistent_find(
        const struct operation_table *table, tutti_tensor handle)
{
    struct operation *operation = operation_of(table, handle);
    uint64_t word;

    if (operation == NULL) {
        return NULL;
    }
    /* Relaxed: generations change under the lock. */
    word = atomic_load_explicit(&operation->persistent, memory_order_relaxed);
    return generation_bits(word) == generation_bits(handle) ? operation : NULL;
}

bool persistent_is_registered(const struct operation *operation)
{
    return is_registered(
            atomic_load_explicit(&operation->persistent, memory_order_relaxed));
}

void persistent_close(struct operation *operation)
{
    uint64_t word = atomic_fetch_or_explicit(
            &operation->persistent, CLOSED, memory_order_acquire);

    /* Who fills takes no lock, and needs some hundred instructions. */
    while ((word & FILLING) != 0) {
        (void)sched_yield();
        word = atomic_load_explicit(&operation->persistent, memory_order_acquire);
    }
}

void persistent_open(struct operation *operation)
{
    (void)atomic_fetch_and_explicit(
            &operation->persistent, ~(uint64_t)CLOSED, memory_order_release);
}

/* Of one that nobody can take. An operation that is done is only waiting to be consumed. */
static bool is_busy(const struct operation *operation, uint64_t word)
{
    if ((word & BORROWED) != 0) {
        return true;
    }
    if ((word & PERSISTENT_HELD) == 0) {
        return false;
    }
    /* Filled: then `done` is of this operation. Acquire: the engine is through with it. */
    return (word & FILLING) != 0 ||
            atomic_load_explicit(&operation->done, memory_order_acquire) ==
            OPERATION_PENDING;
}

bool persistent_is_busy(const struct operation *operation)
{
    return is_busy(operation,
            atomic_load_explicit(&operation->persistent, memory_order_acquire));
}

bool persistent_borrow(struct operation *operation)
{
    /* From here on nobody takes it. Acquire: pairs with persistent_filled(), for `done`. */
    const uint64_t word = atomic_fetch_or_explicit(
            &operation->persistent, BORROWED, memory_order_acquire);

    if (!is_busy(operation, word)) {
        return true;
    }
    if ((word & BORROWED) == 0) {
        persistent_restore(operation);
    }
    return false;
}

void persistent_restore(struct operation *operation)
{
    (void)atomic_fetch_and_explicit(
            &operation->persistent, ~(uint64_t)BORROWED, memory_order_release);
}

bool persistent_end(struct operation *operation)
{
    uint64_t word = atomic_load_explicit(&operation->persistent, memory_order_relaxed);
    uint64_t ended;

    /* Only HELD can change here, when the last request is consumed. */
    do {
        ended = (generation_bits(word) + PERSISTENT_GENERATION) |
                (word & PERSISTENT_HELD);
    } while (!atomic_compare_exchange_weak_explicit(&operation->persistent, &word,
            ended, memory_order_acquire, memory_order_relaxed));
    return (ended & PERSISTENT_HELD) == 0;
}

/* ------------------------------------------- all of a context: its lock is held */

static bool is_gated(const struct tutti *t, const struct process_set *set)
{
    return t->failure.error.status != TUTTI_OK || t->closing || set->closing ||
            set->joined;
}

void persistent_gate(const struct tutti *t, struct operation *own)
{
    if (is_gated(t, own->set)) {
        persistent_close(own);
    } else {
        persistent_open(own);
    }
}

/* The next registered operation of a set, or (NULL) of any. */
static struct operation *next_registered(
        const struct tutti *t, const struct process_set *set, uint32_t *position)
{
    struct operation *operation;

    do {
        operation = operation_next(&t->work.operations, position);
    } while (operation != NULL &&
            (!persistent_is_registered(operation) ||
                    (set != NULL && operation->set != set)));
    return operation;
}

void persistent_gate_all(struct tutti *t)
{
    uint32_t position = 0;
    struct operation *operation;

    while ((operation = next_registered(t, NULL, &position)) != NULL) {
        persistent_gate(t, operation);
    }
}

bool persistent_any_busy(const struct tutti *t, const struct process_set *set)
{
    uint32_t position = 0;
    const struct operation *operation;

    while ((operation = next_registered(t, set, &position)) != NULL) {
        if (persistent_is_busy(operation)) {
            return true;
        }
    }
    return false;
}

void persistent_give_up(struct tutti *t, struct operation *own)
{
    if (persistent_end(own)) {
        operation_put_back(&t->work.operations, own);
    }
}

void persistent_forget(struct tutti *t, const struct process_set *set)
{
    uint32_t position = 0;
    struct operation *operation;

    while ((operation = next_registered(t, set, &position)) != NULL) {
        persistent_close(operation);
        persistent_give_up(t, operation);
    }
}

tutti_status persistent_unknown(tutti_tensor handle)
{
    return error_set(TUTTI_ERR_INVALID, "%" PRIu64 " is no registered tensor", handle);
}
