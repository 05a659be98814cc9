/*
 * The word of a lease. What pairs with what:
 *
 *   lease_return()   releases    lease_take() acquires    the work is the next one's
 *   lease_open()     releases    lease_take() acquires    what was registered
 *   lease_filled()   releases    lease_close() acquires   the submission is in the queue
 */
#include "core/lease.h"

#include <sched.h>

#define FILLING 2u
#define BORROWED 4u
#define CLOSED 8u

#define GENERATION_ONE ((uint64_t)1 << 32)

static uint64_t generation_bits(uint64_t lease)
{
    return lease & ~(uint64_t)UINT32_MAX;
}

static bool is_registered(uint64_t lease)
{
    return (lease & GENERATION_ONE) != 0;
}

static struct work *work_of(const struct work_table *table, tutti_tensor handle)
{
    const uint32_t number = (uint32_t)(handle & UINT32_MAX);

    return number == 0 || !is_registered(handle) ? NULL : work_at(table, number - 1);
}

struct work *lease_take(const struct work_table *table, tutti_tensor handle)
{
    struct work *work = work_of(table, handle);
    uint64_t idle = generation_bits(handle);

    if (work == NULL) {
        return NULL;
    }
    /* Acquire: see above. Failure tells nothing; the slow way looks for itself. */
    return atomic_compare_exchange_strong_explicit(&work->lease, &idle,
                   idle | LEASE_HELD | FILLING, memory_order_acquire,
                   memory_order_relaxed)
            ? work
            : NULL;
}

void lease_filled(struct work *work)
{
    (void)atomic_fetch_and_explicit(
            &work->lease, ~(uint64_t)FILLING, memory_order_release);
}

bool lease_return(struct work *work)
{
    uint64_t before;

    if (!lease_is_held(work)) {
        return true;
    }
    before = atomic_fetch_and_explicit(
            &work->lease, ~(uint64_t)LEASE_HELD, memory_order_release);
    return !is_registered(before);
}

tutti_tensor lease_begin(struct work *work)
{
    const uint64_t lease = atomic_load_explicit(&work->lease, memory_order_relaxed);
    const uint64_t generation = generation_bits(lease) + GENERATION_ONE;

    /* Relaxed: nobody knows the handle, and nobody takes it before lease_open(). */
    atomic_store_explicit(&work->lease, generation | CLOSED, memory_order_relaxed);
    return generation | ((uint64_t)work->index + 1);
}

struct work *lease_find(const struct work_table *table, tutti_tensor handle)
{
    struct work *work = work_of(table, handle);
    uint64_t lease;

    if (work == NULL) {
        return NULL;
    }
    /* Relaxed: generations change under the lock. */
    lease = atomic_load_explicit(&work->lease, memory_order_relaxed);
    return generation_bits(lease) == generation_bits(handle) ? work : NULL;
}

bool lease_is_registered(const struct work *work)
{
    return is_registered(atomic_load_explicit(&work->lease, memory_order_relaxed));
}

void lease_close(struct work *work)
{
    uint64_t lease =
            atomic_fetch_or_explicit(&work->lease, CLOSED, memory_order_acquire);

    /* Who fills takes no lock, and needs some hundred instructions. */
    while ((lease & FILLING) != 0) {
        (void)sched_yield();
        lease = atomic_load_explicit(&work->lease, memory_order_acquire);
    }
}

void lease_open(struct work *work)
{
    (void)atomic_fetch_and_explicit(
            &work->lease, ~(uint64_t)CLOSED, memory_order_release);
}

/* Of a lease that nobody can take. A work that is done is only waiting to be consumed. */
static bool is_busy(const struct work *work, uint64_t lease)
{
    if ((lease & BORROWED) != 0) {
        return true;
    }
    if ((lease & LEASE_HELD) == 0) {
        return false;
    }
    /* Filled: then `done` is of this operation. Acquire: the engine is through with it. */
    return (lease & FILLING) != 0 ||
            atomic_load_explicit(&work->done, memory_order_acquire) == WORK_PENDING;
}

bool lease_is_busy(const struct work *work)
{
    return is_busy(work, atomic_load_explicit(&work->lease, memory_order_acquire));
}

bool lease_borrow(struct work *work)
{
    /* From here on nobody takes it. Acquire: pairs with lease_filled(), for `done`. */
    const uint64_t lease =
            atomic_fetch_or_explicit(&work->lease, BORROWED, memory_order_acquire);

    if (!is_busy(work, lease)) {
        return true;
    }
    if ((lease & BORROWED) == 0) {
        lease_restore(work);
    }
    return false;
}

void lease_restore(struct work *work)
{
    (void)atomic_fetch_and_explicit(
            &work->lease, ~(uint64_t)BORROWED, memory_order_release);
}

bool lease_end(struct work *work)
{
    uint64_t lease = atomic_load_explicit(&work->lease, memory_order_relaxed);
    uint64_t ended;

    /* Only HELD can change here, when the last request is consumed. */
    do {
        ended = (generation_bits(lease) + GENERATION_ONE) | (lease & LEASE_HELD);
    } while (!atomic_compare_exchange_weak_explicit(
            &work->lease, &lease, ended, memory_order_acquire, memory_order_relaxed));
    return (ended & LEASE_HELD) == 0;
}
