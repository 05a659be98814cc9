/*
 * Process sets of one rank: membership, names in use, negotiation, and batches waiting to
 * be launched.
 */
#ifndef TUTTI_RUN_PROCESS_SET_H
#define TUTTI_RUN_PROCESS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "agree/negotiator.h"
#include "ops/op.h"
#include "run/pairs.h"

struct batch;
struct tutti;
struct operation;

struct process_set {
    /* identity, fixed */
    struct tutti *context;
    tutti_process_set id;
    struct op_set op; /* index, rank (-1: not a member), size, world ranks       */
    int *world_ranks; /* [op.size]; owned                                        */
    struct tree_shape shape; /* at member 0, whose negotiator needs it; else zeroed  */

    /* guarded by the context's lock */
    size_t in_flight; /* operations of this rank that are not final                   */
    bool closing; /* being removed, or the rank is finalizing                */
    bool joined; /* this rank has joined, and the join is not finished      */

    /* engine only; members only */
    struct negotiator negotiator;
    bool is_entered; /* it is in the table of the sets; under the lock, too   */
    bool dirty; /* the negotiator must be flushed this pass                */
    bool finalized; /* every member has called finalize                        */
    uint64_t sequence; /* of the next batch                                       */
    struct batch *first_waiting, *last_waiting; /* agreed, not yet launched         */
    int running; /* batches launched and not finished                       */
    struct operation
            *creation; /* of this set: held until its ticket is used; or NULL  */
};

/** All live sets. The table changes in the engine, under the context's lock. */
struct process_sets {
    struct process_set **sets; /* owned, by id, so in order of creation, then pairs;
                                  sets[0] is the world */
    size_t named; /* of them, those that are no pairs                          */
    size_t count, capacity;
    tutti_process_set next_id;
    tutti_status (*act)(
            void *user); /* negotiator_config.act, with a set; fixed        */
    bool index_used[OP_SETS_MAX]; /* which op_set.index are taken                   */
    _Atomic uint32_t tickets, served; /* calls that make sets: how many there were, and
                                         which of them is served; any thread        */
    struct pairs pairs;
};

/**
 * A set of size ranks of the world, copied, with the id, index, bank and size of `identity`. NULL: no
 * memory.
 */
struct process_set *process_set_new(
        struct tutti *t, const struct op_set *identity, const int64_t *ranks);
/** Engine: puts a set into the table. False: no memory */
bool process_sets_enter(struct tutti *t, struct process_set *set);

/**
 * Adds a set. Deterministic: all ranks of the world do it at the same point of the
 * world's log, and so agree on id and index.
 * @param ranks  size world ranks, copied
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_UNSUPPORTED (too many are alive)
 */
tutti_status process_sets_add(
        struct tutti *t, const int64_t *ranks, int size, struct process_set **added);
/** Takes a set out, and unregisters its tensors. Then process_set_free(). */
void process_sets_take(struct tutti *t, struct process_set *set);
void process_set_free(struct process_set *set);
/** The set of an id, or NULL; pairs are found by pairs_find(). */
static inline struct process_set *process_sets_find(
        const struct process_sets *sets, tutti_process_set id)
{
    size_t low = 0;
    size_t high = sets->named;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (sets->sets[middle]->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < sets->named && sets->sets[low]->id == id ? sets->sets[low] : NULL;
}

void process_sets_fini(struct process_sets *sets, int world_size);

#endif
