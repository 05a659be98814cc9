/*
 * What the files of the negotiator call in each other: each only what stands above it here.
 */
#ifndef TUTTI_AGREE_NEGOTIATOR_PARTS_H
#define TUTTI_AGREE_NEGOTIATOR_PARTS_H

#include "agree/names.h"
#include "agree/negotiator.h"
#include "agree/protocol.h"

/** What each member has contributed to a plan is known apart. */
static inline bool sees_members(const struct negotiator *negotiator)
{
    return negotiator->config.arrival_flags || negotiator->config.direct;
}

/**
 * Walks the plans that this rank has read, in the order of their lanes: start with *lane = 0;
 * NULL at the end. Plans may go during the walk.
 */
static inline struct plan *plans_next(const struct negotiator *negotiator, int *lane)
{
    struct plan *plan = NULL;

    while (plan == NULL && ++*lane < negotiator->config.lanes) {
        plan = negotiator->plans.lanes[*lane].current;
    }
    return plan;
}

/** World rank of a member, for messages. */
static inline int world_rank(const struct negotiator *negotiator, int member)
{
    return negotiator->config.world_ranks[member];
}

/** A message of a member cannot be read; `what` it is about. */
static inline tutti_status malformed(
        const struct negotiator *negotiator, const char *what, int from)
{
    return error_set(TUTTI_ERR_PROTOCOL, "malformed %s from rank %d", what,
            world_rank(negotiator, from));
}

/** An entry of the log cannot be true. */
static inline tutti_status corrupt(const char *what)
{
    return error_set(TUTTI_ERR_PROTOCOL, "corrupt log: %s", what);
}

/** The metadata of a complete round whose members agree. */
static inline const struct meta *round_meta(const struct tensor_state *tensor)
{
    return is_named(tensor) ? &tensor->tally->variants->meta : &tensor->meta;
}

/** True for what a number stands for, its step included. */
static inline bool tensor_expects(
        const struct tensor_state *tensor, const struct meta *meta)
{
    return meta_equal(&tensor->meta, meta) && meta->step == steps_next(&tensor->steps);
}

/** Coordinator: all gave what the number stands for, with the same other step. */
static inline bool tensor_is_stepped(const struct tensor_state *tensor)
{
    return tensor->number != 0 && !tensor->tally->retired &&
            tensor->tally->variants != NULL &&
            meta_equal(&tensor->meta, &tensor->tally->variants->meta);
}

/* outbox.c: what a step produces */

/** Begins an item of the announcements, or an entry of the coordinator's log message. */
struct wire_writer *record_open(struct negotiator *negotiator, uint8_t tag);
/** Writes the run of numbers that is being collected, if any. */
void run_close(struct negotiator *negotiator);
/** Adds a number to the message being built. rank is ignored for ENTRY_* tags. */
void run_put(struct negotiator *negotiator, uint8_t tag, int rank, uint64_t number);
/** Copies bytes into an action. */
tutti_status action_add(struct negotiator *negotiator, enum action_kind kind, int to,
        const void *bytes, size_t len);
/** Sends bytes to all children. */
tutti_status forward_down(struct negotiator *negotiator, const void *bytes, size_t len);
/** Adds an outcome for the pending request of a tensor: it is ready. NULL: no memory. */
TUTTI_MUST_USE struct outcome *outcome_add(
        struct negotiator *negotiator, const struct tensor_state *tensor);
/**
 * Makes room for the next message. What names and metadata took is given back: numbers, which
 * all later steps have, take less.
 */
void message_reset(struct wire_writer *message);
/** Sends what was built, if anything, to a member or (-1) to all children; frees it. */
tutti_status message_send(
        struct negotiator *negotiator, int to, struct wire_writer *message);
/** Forgets actions and outcomes. */
void outbox_clear(struct outbox *box);
void outbox_fini(struct outbox *box);
/** Adds an outcome for a tensor that is ready without this rank. */
tutti_status outcome_add_joined(
        struct negotiator *negotiator, int collective, const struct meta *meta);

/* groups.c: groups at the coordinator */

/** The group of a hash, of which nothing is ready yet if it is new; NULL: no memory. */
struct group *group_get(struct negotiator *negotiator, uint64_t hash);
/** All of it is launched. */
void group_put(struct negotiator *negotiator, struct group *group);
/** Forgets the complete members of a group; their announcements are not touched. */
void group_drop(struct negotiator *negotiator, uint64_t hash);
tutti_status group_remember_failed(struct negotiator *negotiator, uint64_t hash);
/** True when a group failed after somebody had read `seen` entries of the log. */
bool group_is_void(const struct negotiator *negotiator, uint64_t hash, uint64_t seen);
void groups_fini(struct negotiator *negotiator);

/* joined.c: members that submit nothing more, and who takes no part in what is ready */

/** The leave that a collective announces, or NULL. */
struct leave *leave_of(struct negotiator *negotiator, int collective);
/** Coordinator: true between a member's announcement and the end of the round. */
bool member_has_joined(const struct negotiator *negotiator, int member);
bool member_leaves(const struct negotiator *negotiator, int member);
/** True when somebody in this subtree has joined or finalized: no number may be held. */
bool leaves_below(const struct negotiator *negotiator);
/** True when this rank has joined or finalized and has no outcome yet. */
bool leave_is_own(const struct negotiator *negotiator);
/**
 * Coordinator: collects in joined.scratch who has joined, or finalized, without announcing
 * the tensor.
 * @param left  member_has_joined() or member_leaves()
 * @return the first of them, or -1
 */
int joined_find(struct negotiator *negotiator, const struct tensor_state *tensor,
        bool (*left)(const struct negotiator *negotiator, int member));
/** An announcement reached the coordinator; *counts: it is the member's first. */
tutti_status leave_collect(struct negotiator *negotiator, struct leave *leave,
        int member, uint64_t seen, bool *counts);
/** A plan begins: what was announced is void. */
void leaves_hold(struct negotiator *negotiator);
/** The round is over. */
void leave_end(struct negotiator *negotiator, struct leave *leave);
void leaves_fini(struct negotiator *negotiator);
/** The coordinator's sets; false when out of memory. */
bool joined_init(struct negotiator *negotiator);
/** Coordinator: says in the log who has joined and takes no part in an entry that comes next. */
void joined_append(struct negotiator *negotiator, const struct tensor_state *tensor);
/** Reads that. */
tutti_status joined_apply(struct negotiator *negotiator, struct wire_reader *in);
/** True when this rank has joined and takes no part in the entries being applied. */
bool is_joined(const struct negotiator *negotiator);
/** Outcomes refer to none any more. */
void joined_clear(struct negotiator *negotiator);
void joined_fini(struct negotiator *negotiator);

/* log_append.c: writing the log */

/** The tensor is ready; if it belongs to a group, when all of that is. */
tutti_status append_ready(struct negotiator *negotiator, struct tensor_state *tensor);
/** The tensor fails, and so do all groups that some rank submitted it in. */
tutti_status append_failure(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status reason, int rank, const char *text);

/* decide.c */

/** Decides a round if all members have announced the tensor, or have joined or finalized. */
tutti_status decide_if_complete(
        struct negotiator *negotiator, struct tensor_state *tensor);
/** A member has joined or finalized: decides what waited for it alone. */
tutti_status decide_what_waits(struct negotiator *negotiator);

/* tally.c: what the coordinator collects */

tutti_status coordinator_number(struct negotiator *negotiator,
        struct tensor_state *tensor, uint8_t tag, int rank);
/** @param[out] collected  the tensor, whose round may be complete now; NULL: it is void */
tutti_status coordinator_name(struct negotiator *negotiator, const struct name_ref *ref,
        int rank, const struct meta *meta, uint64_t seen,
        struct tensor_state **collected);
/** All members at and below `top` gave the same, which may be held (name_is_holdable()). */
tutti_status coordinator_name_below(struct negotiator *negotiator,
        const struct name_ref *ref, int top, const struct meta *meta,
        struct tensor_state **collected);
tutti_status coordinator_cancel(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length);

/* held.c: what an inner node holds */

/** True for collectives whose names inner nodes may hold. */
bool name_is_holdable(int collective);
/** Writes an announcement by name. */
void name_pass(struct negotiator *negotiator, uint8_t tag, int rank,
        const struct name_ref *ref, const struct held_name *said);
/** True when something else than this is held. */
bool held_differs(const struct tensor_state *tensor, const struct meta *meta);
/** From now on a name is never held here; what is held of it goes on. */
void name_split(struct negotiator *negotiator, struct tensor_state *tensor);
/** A name of a child's subtree, or of the node itself (the last bit), arrived. */
tutti_status hold_name(struct negotiator *negotiator, struct tensor_state *tensor,
        int bit, const struct held_name *said);
/** An inner node stops holding back what was announced of this tensor. */
void announce_split(struct negotiator *negotiator, struct tensor_state *tensor);
/** A number of a child, or of the node itself (the last bit), arrived. */
tutti_status hold_number(
        struct negotiator *negotiator, struct tensor_state *tensor, int bit);
/** From now on nothing of what is in a round is held here; what is held goes on. */
void held_pass_all(struct negotiator *negotiator);
/** An announcement passes an inner node: what it holds goes ahead. */
void leave_pass(struct negotiator *negotiator, struct leave *leave, uint64_t seen);

/* announce.c: the way up */

/** Announces this rank's submission, with its cancellation if it has one. */
tutti_status announce_pending(
        struct negotiator *negotiator, struct tensor_state *tensor);
/** This rank is about to read an entry; what it announced, it announced before that. */
void announce_unread(struct negotiator *negotiator);
/** Says to who reads on that this rank has read the log up to here. */
void announce_read(struct negotiator *negotiator);
tutti_status announce_own(struct negotiator *negotiator, struct tensor_state *tensor);
/** Asks the coordinator to cancel this rank's submission. */
tutti_status announce_cancel(
        struct negotiator *negotiator, const struct tensor_state *tensor);
tutti_status announce_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in);

/* leave.c: this rank joins or finalizes */

/** This rank leaves: announced when it has left all plans. */
tutti_status leave_submit(struct negotiator *negotiator, struct leave *leave);
/** A plan was left: announces what waits for that, if it was the last. */
tutti_status leaves_announce_held(struct negotiator *negotiator);
/** This rank's own again, behind what it announces again in this log message. */
tutti_status leaves_announce_again(struct negotiator *negotiator);

/* log_apply.c: the way down */

/** Applies a log message; `in` stands behind the kind. */
tutti_status log_apply(struct negotiator *negotiator, struct wire_reader *in);

/* arrival_wire.c: arrivals in messages */

/** An arrival in a message. */
struct arrival_message {
    uint32_t lane;
    uint64_t epoch;
    struct plan *plan; /* that it is about; NULL: there is none of that epoch */
    struct arrival arrival;
};

void arrival_put(struct wire_writer *out, const struct plan *plan,
        const struct arrival *arrival);
/** @return false: malformed */
bool arrival_get(const struct negotiator *negotiator, struct wire_reader *in,
        struct arrival_message *message);
/** Tells all members what this rank has contributed: it arrived at `batch`, or an exit (NULL). */
void direct_put(struct negotiator *negotiator, const struct plan *plan,
        const struct arrival *arrival, const struct plan_batch *batch);
/* plan.c: a plan at this rank */

/** What this rank has contributed. */
struct arrival plan_own_arrival(
        const struct negotiator *negotiator, const struct plan *plan);
/** A tensor of a plan that is not SLOW was submitted. */
tutti_status plan_submit(struct negotiator *negotiator, struct tensor_state *tensor);
/** Counts it, and no more. */
void plan_count(struct negotiator *negotiator, struct tensor_state *tensor);
/** Commits, contributes, and leaves, as far as that goes; the plan may be gone then. */
tutti_status plan_advance(struct negotiator *negotiator, struct plan *plan);
/** The rank contributes an exit at its cursor as soon as it may. */
void plan_want_exit(struct plan *plan, enum plan_exit why, uint32_t item);
/** The same for all plans that are not SLOW, and goes on. */
tutti_status plans_exit(struct negotiator *negotiator, enum plan_exit why);
/** When the next timer fires; INT64_MAX: none runs. */
int64_t plans_due(const struct negotiator *negotiator);
/** Fires those that are due. */
tutti_status plans_tick(struct negotiator *negotiator);
bool plans_are_valid(const struct negotiator *negotiator);

/* plan_enter.c: plans in the log */

/** Reads a PLAN entry. */
tutti_status plan_apply(struct negotiator *negotiator, struct wire_reader *in);
/** A number of a plan is retired: there is no such plan any more. */
tutti_status plan_forget(struct negotiator *negotiator, struct tensor_state *tensor);
/** The plan of a lane was left: the one that waits for this begins. */
tutti_status lane_left(struct negotiator *negotiator, struct plan_lane *lane);
void plans_fini(struct negotiator *negotiator);

/* plan_arrivals.c: arrivals as messages */

tutti_status arrivals_receive_up(
        struct negotiator *negotiator, int from, struct wire_reader *in);
tutti_status arrivals_receive_down(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** Tells what is new; at the coordinator, applies it, too. */
tutti_status arrivals_flush(struct negotiator *negotiator);

/* plan_direct.c: arrivals straight to every member */

/** Sends what this rank has contributed. */
tutti_status direct_flush(struct negotiator *negotiator);
tutti_status direct_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** What members have contributed to an epoch before this rank has read that it begins. */
void direct_begin_epoch(struct negotiator *negotiator, struct plan *plan);

/* plan_append.c: PLAN entries, as the coordinator writes them */

/** A tensor that is to be planned. */
struct candidate {
    struct tensor_state *tensor;
    size_t place; /* among the candidates, as they were laid out */
    size_t batch; /* that it was laid out in */
};

/** It keeps its number, and nobody is known to give other metadata now. */
static inline bool tensor_is_as_before(const struct tensor_state *tensor)
{
    return !tensor->tally->retired && tensor->tally->variants == NULL;
}

/** Room for that many negotiator->learner.candidates. @return false: no memory */
TUTTI_MUST_USE bool plan_reserve(struct negotiator *negotiator, size_t count);
/**
 * Appends a new plan of the first `count` candidates, which are in the order of their waves,
 * or of those that can be planned. @return false: there are none, or *status is an error
 */
bool plan_append_new(struct negotiator *negotiator, uint32_t lane, size_t count,
        tutti_status *status);
/** Appends the plan as it is. @return false: a tensor of it changes now, so it cannot be */
bool plan_append_again(struct negotiator *negotiator, const struct plan *plan);

/* plan_learn.c: what the coordinator makes plans of */

/** A tensor is about to be launched; true: a plan begins instead. */
bool learn_launch(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status *status);
/** It failed: that was its turn in the iteration. */
void learn_failed(struct negotiator *negotiator, struct tensor_state *tensor);
/** It is launched whatever it is. */
void learn_note(struct negotiator *negotiator, struct tensor_state *tensor);
/** The coordinator has left a plan, because of an arrival. */
void learn_left(struct negotiator *negotiator, struct plan *plan,
        const struct arrival *arrival);

/* plan_leave.c */

/** Ends the epochs whose outcome is known: announces what did not commit. */
tutti_status plans_leave(struct negotiator *negotiator);

/* stall.c: what is stalled in slow mode */

/** The text of a stall report, built piece by piece; what does not fit is cut. */
struct stall_report {
    char text[4096];
    size_t len;
    int names; /* in the list of tensors that is being written */
};

/** "stalled for 2 s: " */
void stall_report_begin(const struct negotiator *negotiator, int64_t since_ns,
        struct stall_report *report);
void stall_report_add(struct stall_report *report, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/** Adds a tensor to a list, of which only the first few are named. */
void stall_report_name(struct stall_report *report, const struct tensor_state *tensor);
/** " and 3 more", if there are; returns how many are in the list. */
int stall_report_end_names(struct stall_report *report);

/** Fails with TUTTI_ERR_TIMEOUT when a submission has waited for stall_fail_ns. */
tutti_status stalls_fail(struct negotiator *negotiator);
/** Reports what is stalled; the coordinator says that it waits. */
tutti_status stalls_report(struct negotiator *negotiator);
/** The parent says that the coordinator waits. */
tutti_status stalls_receive(struct negotiator *negotiator);

/* plan_stall.c */

/** Reports planned tensors that others have not submitted. */
tutti_status plans_report(struct negotiator *negotiator);

#endif
