/*
 * The order in which the batches of device memory are launched: one for all process sets,
 * equal on all ranks, as NCCL wants it (docs/design/gpu.md, "One launch order").
 *
 * World rank 0 is the sequencer. It writes a ticket for each device batch of its own when it
 * queues it, and for those of sets that it is no member of when their first member asks; to
 * the members of the set it sends it. Every rank launches in the order of its tickets, and
 * within a set batches are in order anyway, so a ticket names the set.
 *
 * As long as the world is the only set, tickets travel along a tree of its ranks, which are
 * all awake then; from the first other set on, straight from the sequencer, because a rank
 * that has nothing submitted sleeps. The ticket of that set's creation, which goes to all
 * ranks, divides the two: what came straight before it waits for it.
 *
 * Pure: what happens is told to it, and what it wants done it says by struct tickets_ops.
 * One thread, unless said otherwise.
 *
 *     orders      straight(u8), then until the end: flags (u8), set id (varint), the token
 *                 where there is one
 *     questions   until the end: set id (varint)
 */
#ifndef TUTTI_AGREE_TICKETS_H
#define TUTTI_AGREE_TICKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "ops/op.h"

/** World rank of the sequencer. */
#define TICKETS_SEQUENCER 0

/** What comes next on a rank. */
struct ticket {
    tutti_process_set set;
    bool is_creation; /* the set has been made; concerns every rank              */
    bool has_token; /* the ranks of the set meet first                         */
    bool by_tree; /* this rank hands it on along the tree                    */
    bool is_owed; /* of a batch that was queued here, or will be               */
    uint8_t token[OP_TOKEN_BYTES]; /* where has_token                         */
};

/** Tickets, oldest first. */
struct ticket_queue {
    struct ticket *items; /* owned */
    size_t first, count, capacity; /* items[first .. first + count)            */
};

/** What it asks of its surroundings. */
struct tickets_ops {
    /** The live set of an id, or NULL. */
    const struct op_set *(*find)(void *user, tutti_process_set set);
    /** True when no device batch is started whose commands are not issued yet. */
    bool (*is_idle)(void *user);
    /** Sequencer: makes a token; where that fails, one by which nobody is found. */
    void (*token)(void *user, uint8_t token[OP_TOKEN_BYTES]);
    /** See op_backend.meet. */
    tutti_status (*meet)(void *user, const struct op_set *set,
            const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved);
    /** A creation is over. */
    void (*created)(void *user, tutti_process_set set);
    /** Sends orders, or questions. */
    tutti_status (*send)(
            void *user, int to, bool is_question, const void *bytes, size_t len);
};

struct tickets {
    /* fixed */
    const struct tickets_ops *ops;
    void *user;
    int rank, size, fanout;
    bool brakes; /* nothing is launched that nobody waits for, but what is before it */

    struct ticket_queue next; /* not yet used here                                */
    struct ticket_queue early; /* came straight, while the tree was in use         */
    size_t told; /* of `next`, those that were handed on                  */
    struct ticket_queue asked; /* what the sequencer is to be asked for            */
    struct wire_writer message; /* being built                                      */
    tutti_process_set known; /* sets below it are here, or were                    */
    bool is_direct; /* tickets come straight from the sequencer             */
    bool has_token[OP_SETS_MAX]; /* sequencer: the ranks of the set were given one, by
                                    index */
    bool meets; /* the ranks of the first ticket's set are meeting        */
    bool failed; /* out of memory; found at the next tickets_advance()      */
    uint64_t used; /* tickets that were used here                             */
    uint32_t foreign; /* sequencer: sets that it is no member of               */
    uint32_t owed; /* batches that were queued here and not launched           */
    _Atomic uint32_t on_duty; /* DUTY_... */
    _Atomic uint32_t demands; /* what is waited for and not issued; any thread     */
};

/** True once tickets_init() was given its functions: there are batches of device memory to order. */
static inline bool tickets_are_used(const struct tickets *tickets)
{
    return tickets->ops != NULL;
}

void tickets_init(struct tickets *tickets, const struct tickets_ops *ops, void *user,
        int rank, int size, int fanout);
void tickets_fini(struct tickets *tickets);
/** A set is there from the start. The world is the first. */
void tickets_listed(struct tickets *tickets, const struct op_set *set);
/** A set was created; ops->created() says when the creation is over, on all ranks in order. */
void tickets_created(struct tickets *tickets, const struct op_set *set);
/** A set was removed; what was queued of it, and has no part in, is not launched any more. */
void tickets_removed(struct tickets *tickets, const struct op_set *set);
/**
 * A device batch was queued: sees to it that it gets a ticket.
 * @param has_part  false: this rank has joined, and only counts it. It has no place in the
 *                  program then, so it is waited for.
 */
void tickets_queued(struct tickets *tickets, const struct op_set *set, bool has_part);
/** What ops->send() of another rank was given. Errors: TUTTI_ERR_PROTOCOL. */
tutti_status tickets_receive(struct tickets *tickets, int from, bool is_question,
        const void *bytes, size_t len);
/**
 * Hands tickets on, and uses those that need no batch.
 * Errors: TUTTI_ERR_NO_MEMORY, those of send() and meet().
 */
tutti_status tickets_advance(struct tickets *tickets, bool *moved);
/** True when the first waiting device batch of a set may be launched now. */
bool tickets_allow(const struct tickets *tickets, const struct op_set *set);
/** It was launched, or skipped: see tickets_queued(). */
void tickets_use(struct tickets *tickets, bool has_part);
/**
 * True when this rank must look for messages although it may have submitted nothing: for
 * questions, or because tickets are owed. Any thread.
 */
bool tickets_are_awaited(const struct tickets *tickets);
/** True until all batches that were queued are launched or skipped. Any thread. */
bool tickets_are_owed(const struct tickets *tickets);
/** More or less is waited for, so that, with `brakes`, batches are launched. Any thread. */
void tickets_demand(struct tickets *tickets);
void tickets_satisfy(struct tickets *tickets);

#endif
