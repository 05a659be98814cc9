/*
 * Leases: who may use the work that a registered tensor owns, without a lock.
 *
 * A registration has a work of the table for life, and its handle says which. To submit is
 * to take the lease of that work by one compare-and-swap; it is held until the request is
 * consumed, or the callback is about to run. The word of the lease:
 *
 *   generation   the upper half: odd while registered; a handle is of one generation
 *   HELD         the work is in use
 *   FILLING      a thread has taken the lease and has not returned from submitting. Who
 *                closes a lease waits for it, so that what was submitted before is queued
 *                before
 *   BORROWED     the name is in flight with a work from the pool: it was submitted by name,
 *                in a group, or while the request of its last operation was not consumed
 *   CLOSED       submissions must look under the lock: the context failed or is finalizing,
 *                or the process set is joined or being destroyed
 *
 * Only an open, idle lease is taken without the lock; everything else is for the slow way,
 * which finds the reason. Bits but HELD and FILLING change under the context's lock alone.
 */
#ifndef TUTTI_CORE_LEASE_H
#define TUTTI_CORE_LEASE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "core/work.h"

/** Any thread, no lock: the work of a handle, now the caller's to begin; or NULL. */
struct work *lease_take(const struct work_table *table, tutti_tensor handle);
/** The submission is queued, or withdrawn, by the thread that has taken the lease. */
void lease_filled(struct work *work);
/**
 * Any thread, by work_end(): the work is not in use any more.
 * @return true when nobody has it: it is of the pool, or was unregistered meanwhile
 */
bool lease_return(struct work *work);
/** True for a work in use by its registration, false for one from the pool. */
static inline bool lease_is_held(const struct work *work);

/* Below: context's lock held. */

/** Registers an idle work of the pool, closed. @return its handle */
tutti_tensor lease_begin(struct work *work);
/** The registered work of a handle, or NULL. */
struct work *lease_find(const struct work_table *table, tutti_tensor handle);
/** True when the work is of a registration. */
bool lease_is_registered(const struct work *work);
/** Closes a lease, or opens it again; what was submitted before is queued then. */
void lease_close(struct work *work);
void lease_open(struct work *work);
/** True when the name of a closed lease is in flight. */
bool lease_is_busy(const struct work *work);
/** The name goes in flight with a work from the pool; false when it is in flight. */
bool lease_borrow(struct work *work);
/** The name is not in flight any more with a work from the pool. */
void lease_restore(struct work *work);
/**
 * Unregisters the work of a closed lease whose name is not in flight.
 * @return true when the work is to be put back into the pool; else it is by whoever
 *         consumes its request
 */
TUTTI_MUST_USE bool lease_end(struct work *work);

/** Low bit of a lease; the others are in lease.c. */
#define LEASE_HELD 1u

static inline bool lease_is_held(const struct work *work)
{
    /* Relaxed: the caller has the work, so nobody else changes the answer. */
    return (atomic_load_explicit(&work->lease, memory_order_relaxed) & LEASE_HELD) != 0;
}

#endif
