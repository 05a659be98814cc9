/*
 * Work: one submitted operation, from submission until its request is consumed.
 *
 *   QUEUED -> ANNOUNCED -> AGREED -> RUNNING -> DONE      (any -> DONE on failure)
 *
 * Works live in slabs that are never freed before the context is, so a pointer stays
 * readable; the generation tells whether it still is the same work.
 */
#ifndef TUTTI_CORE_WORK_H
#define TUTTI_CORE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/error.h"
#include "core/negotiator.h"
#include "ops/op.h"

enum work_state {
    WORK_FREE, /* in the pool                                                  */
    WORK_QUEUED, /* submitted, not yet seen by the engine (or in an open group)  */
    WORK_ANNOUNCED, /* with the negotiator                                          */
    WORK_AGREED, /* all ranks have it; in a batch that waits to be launched      */
    WORK_RUNNING, /* with a backend                                               */
    WORK_DONE, /* final; waits to be consumed                                  */
    WORK_STATE_COUNT
};

struct tensor;
struct process_set;

struct work {
    uint32_t index; /* in the table, fixed                             */
    _Atomic uint32_t generation; /* odd while taken; grows at take and release      */
    _Atomic uint32_t done; /* 1: final; pairs with the waiter's acquire       */
    enum work_state state; /* written only by work_advance(); engine thread,
                                    or the submitter while QUEUED                   */

    struct process_set *set;
    struct tensor *tensor; /* its name; holds it in flight                    */
    struct request request; /* what is negotiated; name borrowed from tensor   */
    int64_t *numbers; /* owned; backs request.meta.dims                  */
    size_t number_capacity;
    struct op_part *parts; /* owned; of collectives on rows: [set size] of the
                                input, then [set size] of the output            */
    size_t part_capacity;
    const void *input; /* caller's, lent                                  */
    void *output; /* caller's, lent; or owned until it is taken      */
    bool owns_output; /* the output is allocated here (core/output.h)    */
    size_t bytes; /* payload: of the input                           */
    int priority;
    tutti_callback callback; /* NULL: there is a request to wait for            */
    void *user;

    _Atomic uint32_t cancel_asked; /* 1: tutti_cancel() was called                  */
    tutti_status status; /* final status, valid once done                   */
    struct error *error; /* owned; NULL when status is TUTTI_OK             */
    struct work *next; /* in the queue, a group, or a list of completions */
};

/** All works of a context. Guarded by the context's lock. Zeroed is valid. */
struct work_table {
    struct work **slabs; /* owned */
    uint32_t slab_count;
    struct work *free; /* over next */
};

/** A free work, zeroed but for identity, in state QUEUED; NULL when out of memory. */
struct work *work_take(struct work_table *table);
/** Gives it back; its request becomes unknown. */
void work_release(struct work_table *table, struct work *work);
void work_table_fini(struct work_table *table);
/** Walks works that are not free: start with *position = 0; NULL at the end. */
struct work *work_next(const struct work_table *table, uint32_t *position);

/** Room for `count` numbers in a work; NULL when out of memory. */
int64_t *work_numbers(struct work *work, size_t count);
/** Makes room for `count` parts; false when out of memory. */
bool work_parts(struct work *work, size_t count);

/** The public handle. */
tutti_request work_handle(const struct work *work);
/** The work of a handle, or NULL when it is unknown or consumed. */
struct work *work_find(const struct work_table *table, tutti_request request);
/** True when the handle's work is final or no longer exists. Any thread, no lock. */
bool work_is_over(const struct work *work, tutti_request request);

/** The only writer of `state`. */
void work_advance(struct work *work, enum work_state to);

#endif
