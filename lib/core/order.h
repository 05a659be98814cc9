/*
 * The order in which the batches of device memory are launched: one for all process sets
 * and lanes, equal on all ranks, as NCCL wants it (docs/design/gpu.md, "One launch order").
 *
 * World rank 0 is the sequencer. It writes a ticket for each device batch of its own when it
 * queues it, and for those of sets that it is no member of when their first member asks; to
 * the members of the set it sends it. Every rank launches in the order of its tickets, and
 * within a lane batches are in order anyway, so a ticket names set and lane.
 *
 * As long as the world is the only set, tickets travel along a tree of its ranks, which are
 * all awake then; from the first other set on, straight from the sequencer, because a rank
 * that has nothing submitted sleeps. The ticket of that set's creation, which goes to all
 * ranks, divides the two: what came straight before it waits for it.
 *
 * Off where no backend needs it. Engine only, unless said otherwise.
 */
#ifndef TUTTI_CORE_ORDER_H
#define TUTTI_CORE_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/op.h"

struct batch;
struct process_set;
struct tutti;
struct work;

/** What comes next on a rank. */
struct ticket {
    tutti_process_set set;
    uint32_t lane; /* of the batch; 0 for a creation                         */
    bool is_creation; /* the set has been made; concerns every rank              */
    bool has_token; /* the ranks of the set meet first                         */
    bool by_tree; /* this rank hands it on along the tree                    */
    uint8_t token[OP_TOKEN_BYTES]; /* where has_token                         */
};

/** Tickets, oldest first. */
struct ticket_queue {
    struct ticket *items; /* owned */
    size_t first, count, capacity; /* items[first .. first + count)            */
};

/** Zeroed is valid. */
struct order {
    struct ticket_queue next; /* not yet used here                                */
    struct ticket_queue early; /* came straight, while the tree was in use         */
    size_t told; /* of `next`, those that were handed on                  */
    struct ticket_queue asked; /* sequencer: what others ask for                   */
    bool is_direct; /* tickets come straight from the sequencer             */
    bool has_world; /* sequencer: the world's ranks have a token            */
    bool meets; /* the ranks of the first ticket's set are meeting        */
    bool failed; /* out of memory; found at the next order_advance()        */
    uint64_t used; /* tickets that were used here                             */
    _Atomic uint32_t on_duty; /* see order_is_on_duty()                          */
    _Atomic uint32_t demands; /* works that are waited for and not issued; see
                                 order_demand() */
};

/** True when device batches are launched in order at all: fixed. */
bool order_is_on(const struct tutti *t);
/** The sets that exist from the start are there. */
void order_begin(struct tutti *t);
/** A batch was queued: sees to it that it gets a ticket. */
void order_queued(struct tutti *t, const struct batch *batch);
/**
 * A set was created: its creation ends when its ticket has been used.
 * @return false: there is no order, and the creation ends at once
 */
bool order_created(struct tutti *t, struct process_set *set, struct work *creation);
/** True when the first waiting batch of a lane may be launched now. */
bool order_allows(const struct tutti *t, const struct batch *batch);
/** It was launched, or skipped. */
void order_use(struct tutti *t);
/**
 * Hands tickets on, and uses those that need no batch.
 * Errors: TUTTI_ERR_NO_MEMORY, those of the transport and of meet().
 */
tutti_status order_advance(struct tutti *t, bool *moved);
/** Tells the backend that a set is removed. */
void order_removed(struct tutti *t, const struct process_set *set);
/** The body of a message of kind ENVELOPE_ORDER or ENVELOPE_ASK. */
tutti_status order_receive(
        struct tutti *t, int from, bool is_question, const void *bytes, size_t len);
/** True when this rank must look for questions although it has submitted nothing. Any thread. */
bool order_is_on_duty(const struct tutti *t);
/**
 * Any thread: the work is waited for, so with issue=caller batches are launched until it is
 * issued. Until order_satisfied(); on the host it asks for nothing.
 */
void order_demand(struct tutti *t, struct work *work);
/** It is issued or over, or nobody waits for it any more. Any thread. */
void order_satisfied(struct tutti *t, struct work *work);
/** All there is is waited for, from now on: by finalize. */
void order_demand_all(struct tutti *t);
void order_fini(struct order *order);

#endif
