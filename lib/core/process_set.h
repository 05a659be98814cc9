/*
 * Process sets of one rank: membership, names in use, negotiation, and batches waiting to
 * be launched.
 */
#ifndef TUTTI_CORE_PROCESS_SET_H
#define TUTTI_CORE_PROCESS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "core/negotiator.h"
#include "core/tensors.h"
#include "ops/op.h"

struct batch;
struct tutti;
struct work;

/** A window of batches may begin in the step in which the one before it is agreed. */
enum {
    RIDERS_MAX = 2 * OP_INFLIGHT_MAX
};

/** One order of batches of a set: of its log (lane 0), or of a plan. */
struct set_lane {
    uint64_t sequence; /* of the next batch                                       */
    struct batch *first_waiting, *last_waiting; /* agreed, not yet launched         */
    int running; /* batches launched and not finished                       */

    /* Of a plan that rides, by index modulo RIDERS_MAX: begun, and not known to be agreed;
       or walked, and not ended. */
    struct batch *riders[RIDERS_MAX];
    int rider_count;
};

struct process_set {
    struct process_set
            *next; /* of those that are removed                             */

    /* identity, fixed */
    struct tutti *context;
    tutti_process_set id;
    struct op_set op; /* index, rank (-1: not a member), size, world ranks       */
    int *world_ranks; /* [op.size]; owned                                        */

    /* guarded by the context's lock */
    struct tensors tensors;
    size_t in_flight; /* works of this rank that are not final                   */
    bool closing; /* being removed, or the rank is finalizing                */
    bool joined; /* this rank has joined, and the join is not finished      */

    /* engine only; members only */
    struct negotiator negotiator;
    bool dirty; /* the negotiator must be flushed this turn                */
    bool marked; /* this rank's marks changed: the members are to be woken  */
    bool finalized; /* every member has called finalize                        */
    struct set_lane lanes[OP_LANES];
    unsigned waiting_lanes; /* 1 << lane: it has batches waiting                    */
    struct work *removal; /* of this set: held until it drains no more            */
    struct work *creation; /* of this set: held until its ticket is used; or NULL  */
    bool has_token; /* sequencer: its ranks were given one (core/order.h)     */
};

/** All live sets. The table changes in the engine, under the context's lock. */
struct process_sets {
    struct process_set **sets; /* owned, in order of creation; sets[0] is the world */
    size_t count, capacity;
    struct process_set *removed; /* what these walked is under way; owned           */
    tutti_process_set next_id;
    bool index_used[OP_SETS_MAX]; /* which op_set.index are taken                   */
};

/**
 * Adds a set. Deterministic: all ranks of the world do it at the same point of the
 * world's log, and so agree on id and index.
 * @param ranks  size world ranks, copied
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_UNSUPPORTED (OP_SETS_MAX are alive)
 */
tutti_status process_sets_add(
        struct tutti *t, const int64_t *ranks, int size, struct process_set **added);
/** True while a plan of the set, which has been left, has messages under way here. */
bool process_set_drains(const struct process_set *set);
/**
 * Removes a set. It is freed, or, if it drains, kept until process_sets_fini(): by then
 * backends touch nothing of it.
 */
void process_sets_remove(struct tutti *t, struct process_set *set);
/** The set of an id, or NULL. */
struct process_set *process_sets_find(
        const struct process_sets *sets, tutti_process_set id);
void process_sets_fini(struct process_sets *sets);

#endif
