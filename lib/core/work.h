/*
 * Work: one submitted operation, from submission until its request is consumed.
 *
 *   QUEUED -> ANNOUNCED -> AGREED -> RUNNING -> DONE      (any -> DONE on failure)
 *
 * A work on device memory is ISSUED between RUNNING and DONE: its commands are on streams,
 * its name is free, and it is done when a mark has passed (core/issues.h).
 *
 * Works live in slabs that neither move nor go before the context does, so a pointer
 * stays readable; the generation tells whether it still is the same work. A work belongs
 * to the pool, or to a registered tensor, which has it for life (core/lease.h).
 */
#ifndef TUTTI_CORE_WORK_H
#define TUTTI_CORE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/negotiator.h"
#include "ops/op.h"

enum work_state {
    WORK_FREE, /* in the pool                                                  */
    WORK_QUEUED, /* submitted, not yet seen by the engine (or in an open group)  */
    WORK_ANNOUNCED, /* with the negotiator                                          */
    WORK_AGREED, /* all ranks have it; in a batch that waits to be launched      */
    WORK_BEGUN, /* with the negotiator, and in a batch that rides                */
    WORK_RUNNING, /* with a backend                                               */
    WORK_ISSUED, /* its commands are on streams of the device                    */
    WORK_DONE, /* final; waits to be consumed                                  */
    WORK_STATE_COUNT
};

struct issue;
struct tensor;
struct process_set;

/** How far a work is, for those who do not drive. */
enum work_progress {
    WORK_PENDING, /* its name is in flight                                        */
    WORK_FINAL, /* done                                                         */
    WORK_PASSING /* issued: its name is free, its result is not there yet        */
};

/** The two low bits of a generation. Each use of a work goes through them upwards. */
enum work_phase {
    WORK_IDLE, /* not in use                                                   */
    WORK_WAITED, /* in use, and there is a request for it                        */
    WORK_SILENT, /* in use, and there is none                                    */
    WORK_CONSUMED, /* a thread is consuming the request                            */
    WORK_PHASE_MASK = 3
};

struct work {
    _Alignas(MEM_CACHE_LINE) uint32_t index; /* in the table, fixed                 */
    _Atomic uint32_t generation; /* grows; its low bits are a work_phase            */
    _Atomic uint64_t lease; /* of the registration: see core/lease.h           */
    _Atomic uint32_t done; /* work_progress; pairs with the waiter's acquire  */
    _Atomic uint32_t demanded; /* 1: counted in order.demands; see order_demand() */
    _Atomic uint32_t state; /* work_state; written by work_advance() alone: engine,
                                    the submitter while QUEUED, the consumer after DONE.
                                    Others may read it: what the engine has not written
                                    says no more than that the work is not its       */
    bool owns_output; /* the output is allocated here (core/output.h)    */

    struct process_set *set;
    struct tensor *tensor; /* its name; holds it in flight                    */
    struct request request; /* what is negotiated; name borrowed from tensor   */
    int64_t *numbers; /* owned; backs request.meta.dims                  */
    size_t number_capacity;
    struct op_part *parts; /* owned; of collectives on rows: [set size] of the
                                input, then [set size] of the output            */
    size_t part_capacity;
    int part_members; /* so many for each side; the set may be gone when they are read */
    const void *input; /* caller's, lent                                  */
    void *output; /* caller's, lent; or owned until it is taken      */
    size_t bytes; /* payload: of the input                           */
    tutti_stream stream; /* of device memory: what was on it must be done  */
    struct device_mark *after; /* that point; a reference; NULL: nothing to wait for */
    struct issue *issue; /* while ISSUED, and in its list; context's lock   */
    struct work *before; /* in that list, over next; context's lock         */
    tutti_callback callback; /* NULL: there is a request to wait for            */
    void *user;

    _Atomic uint32_t
            cancel_asked; /* the generation that tutti_cancel() meant; 0: none */
    tutti_status status; /* final status, valid once done                   */
    struct error *error; /* owned; NULL when status is TUTTI_OK             */
    struct work *next; /* in the queue, a group, or a list of completions */
};

/** Slabs double in size, so that so many of them are more works than anybody has. */
#define WORK_SLABS_MAX 20u

/** All works of a context. Zeroed is valid. */
struct work_table {
    _Atomic(struct work *) slabs[WORK_SLABS_MAX]; /* owned; written under the lock    */
    _Atomic uint32_t slab_count; /* read by anyone; written under the lock            */
    struct work *free; /* the pool, over next; under the context's lock   */
};

/**
 * A work of the pool, idle; NULL when out of memory. Lock held, or the context is new. Goes
 * to work_begin(), or back.
 */
struct work *work_take(struct work_table *table);
/** Gives an idle work to the pool. Lock held. */
void work_put_back(struct work_table *table, struct work *work);
/**
 * Opens a work for a new operation, in state QUEUED. With a callback (may be NULL) there
 * is no request. Any thread: the one that has taken it or holds its lease.
 */
void work_begin(struct work *work, tutti_callback callback, void *user);
/**
 * Closes it; its request becomes unknown. The caller consumed or withdraws the operation.
 * @return true when the work is to be put back into the pool; else its registration has it
 *         again, and it must not be touched any more
 */
TUTTI_MUST_USE bool work_end(struct work *work);
void work_table_fini(struct work_table *table);
/**
 * Walks works, those that are not in use included: start with *position = 0; NULL at the
 * end. Those that are added meanwhile may be missed.
 */
struct work *work_next(const struct work_table *table, uint32_t *position);
/** The work of an index, or NULL. Any thread, no lock. */
struct work *work_at(const struct work_table *table, uint64_t index);

static inline enum work_state work_state(const struct work *work)
{
    return (enum work_state)atomic_load_explicit(&work->state, memory_order_relaxed);
}

/** Room for `count` numbers in a work; NULL when out of memory. */
int64_t *work_numbers(struct work *work, size_t count);
/** Makes room for `count` parts; false when out of memory. */
bool work_parts(struct work *work, size_t count);

/** The public handle. */
tutti_request work_handle(const struct work *work);
/**
 * The work of a handle, or NULL when it is unknown or consumed. Any thread, no lock: the
 * work stays what it is as long as nobody else consumes the request.
 */
struct work *work_find(const struct work_table *table, tutti_request request);
/**
 * Makes the caller the only one that consumes a request that is done; false when it is
 * unknown or another thread was faster. Then work_unclaim() or work_end().
 */
bool work_claim(struct work *work, tutti_request request);
/** The request is not consumed after all. */
void work_unclaim(struct work *work);
/** Asks the engine to cancel the operation of a request. Lock held. */
void work_ask_cancel(struct work *work, tutti_request request);
/** Engine: true, once, when that was asked of the operation that the work is in now. */
bool work_take_cancel(struct work *work);
/** True when a work is final. Any thread. */
static inline bool work_is_done(const struct work *work)
{
    /* Pairs with the release in completion.c: results are visible once done is. */
    return atomic_load_explicit(&work->done, memory_order_acquire) == WORK_FINAL;
}
/** True when a work is final, or issued on the device. Any thread. */
static inline bool work_is_issued(const struct work *work)
{
    /* Pairs with the releases in issues.c and completion.c. */
    return atomic_load_explicit(&work->done, memory_order_acquire) != WORK_PENDING;
}
/** True when its memory is the device's. Any thread, while the request is not consumed. */
static inline bool work_is_on_device(const struct work *work)
{
    return work->request.meta.space == OP_DEVICE;
}
/** True when a work is of this request, and nobody is consuming it. Any thread. */
bool work_is_of(const struct work *work, tutti_request request);
/** True when the handle's work is final or no longer exists. Any thread, no lock. */
bool work_is_over(const struct work *work, tutti_request request);

/** As work_is_over(), or issued on the device. */
bool work_is_over_or_issued(const struct work *work, tutti_request request);

/** The only writer of `state`. */
void work_advance(struct work *work, enum work_state to);

#endif
