/*
 * What the files of the negotiator call in each other. Internal to
 * lib/core/negotiator.c, announce.c, coordinator.c, decide.c, append.c, turnlog.c,
 * parting.c, absent.c, stall.c, and of plans plan.c, plan_enter.c, plan_marks.c,
 * plan_learn.c, plan_ride.c and plan_stall.c.
 */
#ifndef TUTTI_CORE_NEGOTIATOR_PARTS_H
#define TUTTI_CORE_NEGOTIATOR_PARTS_H

#include "core/entries.h"
#include "core/negotiator.h"
#include "core/observer.h"
#include "core/protocol.h"

/** A name as it arrived: borrowed from a message or a request. */
struct name_ref {
    uint64_t hash;
    int collective;
    const char *name;
    size_t name_len;
};

static inline bool is_coordinator(const struct negotiator *negotiator)
{
    return negotiator->config.rank == 0;
}

/** World rank of a member, for messages. */
static inline int world_rank(const struct negotiator *negotiator, int member)
{
    return negotiator->config.world_ranks[member];
}

/** The metadata of a complete round whose members agree. */
static inline const struct meta *round_meta(const struct entry *entry)
{
    return entry->variants != NULL ? &entry->variants->meta : &entry->meta;
}

/* negotiator.c */

/** The message being built, with its header: announcements, or the coordinator's turn. */
struct wire_writer *message_open(struct negotiator *negotiator);
/** Writes the run of numbers that is being collected, if any. */
void run_close(struct negotiator *negotiator);
/** Adds a number to the message being built. rank is ignored for ENTRY_* tags. */
void run_put(struct negotiator *negotiator, uint8_t tag, int rank, uint64_t number);
/** Copies bytes into an action. */
tutti_status action_add(struct negotiator *negotiator, enum action_kind kind, int to,
        const void *bytes, size_t len);
/** Sends bytes to all children. */
tutti_status forward_down(struct negotiator *negotiator, const void *bytes, size_t len);
/** Adds an outcome for the pending request of an entry; error (may be NULL) is taken. */
tutti_status outcome_add(
        struct negotiator *negotiator, struct entry *entry, struct error *error);
/** Adds an outcome for a tensor that is ready without this rank. */
tutti_status outcome_add_absent(
        struct negotiator *negotiator, int collective, const struct meta *meta);
/** Reads collective and name. */
bool name_get(struct wire_reader *in, struct name_ref *ref);
/** Writes them. */
void name_put(
        struct wire_writer *out, int collective, const char *name, size_t name_len);

/** Announces this rank's submission, with its cancellation if it has one. */
tutti_status announce_pending(struct negotiator *negotiator, struct entry *entry);

/* announce.c: the way up */

/** This rank is about to read an entry; what it announced, it announced before that. */
void announce_unread(struct negotiator *negotiator);
/** Says to who reads on that this rank has read the log up to here. */
void announce_read(struct negotiator *negotiator);

tutti_status announce_own(struct negotiator *negotiator, struct entry *entry);
tutti_status announce_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** An inner node stops holding numbers of this entry back. */
void announce_split(struct negotiator *negotiator, struct entry *entry);

/* coordinator.c: collecting */

tutti_status coordinator_number(
        struct negotiator *negotiator, struct entry *entry, uint8_t tag, int rank);
tutti_status coordinator_name(struct negotiator *negotiator, const struct name_ref *ref,
        int rank, const struct meta *meta, uint64_t seen);
tutti_status coordinator_cancel(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length);
/** True when the announcement of a member has arrived here. */
bool coordinator_heard(const struct entry *entry, int rank);
/** Forgets the announcements by name that belong to a group. */
void coordinator_drop_variants(struct entry *entry, uint64_t hash);

/* decide.c */

/** Decides a round if all members have announced the tensor, or have parted. */
tutti_status decide_if_complete(struct negotiator *negotiator, struct entry *entry);
/** A member has parted: decides what waited for it alone. */
tutti_status decide_what_waits(struct negotiator *negotiator);

/* append.c: writing the log */

/** The tensor is ready; if it belongs to a group, when all of that is. */
tutti_status append_ready(struct negotiator *negotiator, struct entry *entry);
/** The tensor fails, and so do all groups that some rank submitted it in. */
tutti_status append_failure(struct negotiator *negotiator, struct entry *entry,
        tutti_status reason, int rank, const char *text);
/** True when a group failed after somebody had read `seen` entries of the log. */
bool group_is_void(const struct negotiator *negotiator, uint64_t hash, uint64_t seen);
/** Forgets the complete members of a group; their announcements are not touched. */
void group_drop(struct negotiator *negotiator, uint64_t hash);
void groups_fini(struct negotiator *negotiator);

/* parting.c: members that submit nothing more */

/** The parting that a collective announces, or NULL. */
struct parting *parting_of(struct negotiator *negotiator, int collective);
/** Coordinator: true between a member's announcement and the end of the round. */
bool member_has_joined(const struct negotiator *negotiator, int member);
bool member_leaves(const struct negotiator *negotiator, int member);
/** True when somebody in this subtree has parted: no number may be held. */
bool partings_below(const struct negotiator *negotiator);
/** True when this rank has parted and has no outcome yet. */
bool parting_is_own(const struct negotiator *negotiator);
/** An announcement passes an inner node: what it holds goes ahead. */
void parting_pass(
        struct negotiator *negotiator, struct parting *parting, uint64_t seen);
/** An announcement reached the coordinator; *counts: it is the member's first. */
tutti_status parting_collect(struct negotiator *negotiator, struct parting *parting,
        int member, uint64_t seen, bool *counts);
/** This rank parts: announced when it has left all plans. */
tutti_status parting_submit(struct negotiator *negotiator, struct parting *parting);
/** A plan begins: what was announced is void. */
void partings_hold(struct negotiator *negotiator);
/** A plan was left: announces what waits for that, if it was the last. */
tutti_status partings_announce_held(struct negotiator *negotiator);
/** This rank's own again, behind what it announces again in this turn. */
tutti_status partings_announce_again(struct negotiator *negotiator);
/** The round is over. */
void parting_end(struct negotiator *negotiator, struct parting *parting);
void partings_fini(struct negotiator *negotiator);

/* absent.c: who takes no part in what is ready */

/** The coordinator's sets; false when out of memory. */
bool absent_init(struct negotiator *negotiator);
/** Coordinator: says in the log who is absent from an entry that comes next. */
void absent_append(struct negotiator *negotiator, const struct entry *entry);
/** Reads that. */
tutti_status absent_apply(struct negotiator *negotiator, struct wire_reader *in);
/** True when this rank is absent from the entries being applied. */
bool is_absent(const struct negotiator *negotiator);
/** Outcomes refer to none any more. */
void absences_clear(struct negotiator *negotiator);
void absent_fini(struct negotiator *negotiator);

/* turnlog.c: the way down */

/** Applies a turn; `in` stands behind the kind. */
tutti_status turnlog_apply(struct negotiator *negotiator, struct wire_reader *in);

/* plan.c: a plan at this rank */

/** What this rank has contributed. */
struct mark plan_own_mark(const struct negotiator *negotiator, const struct plan *plan);
/** A tensor of a plan that is not SLOW was submitted. */
tutti_status plan_submit(struct negotiator *negotiator, struct entry *entry);
/** Counts it, and no more. */
void plan_count(struct negotiator *negotiator, struct entry *entry);
/** Commits, contributes, and leaves, as far as that goes; the plan may be gone then. */
tutti_status plan_advance(struct negotiator *negotiator, struct plan *plan);
/** The rank contributes a poison at its cursor as soon as it may. */
void plan_want_poison(struct plan *plan, enum poison poison, uint32_t item);
/** The same for all plans that are not SLOW, and goes on. */
tutti_status plans_poison(struct negotiator *negotiator, enum poison poison);
/** Its epoch is over here: announces what did not commit; the plan may be gone then. */
tutti_status plan_end_epoch(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark);
/** When the next timer fires; INT64_MAX: none runs. */
int64_t plans_due(const struct negotiator *negotiator);
/** Fires those that are due. */
tutti_status plans_tick(struct negotiator *negotiator);
bool plans_are_valid(const struct negotiator *negotiator);

/* plan_ride.c: batches that are begun at arrival */

/** True when what each member contributed is known apart. */
static inline bool plan_knows_members(
        const struct negotiator *negotiator, const struct plan *plan)
{
    return negotiator->config.board || plan->rides;
}

/** This rank arrives at the batch of an index. */
tutti_status ride_begin(struct negotiator *negotiator, const struct plan *plan,
        const struct plan_batch *batch, uint64_t index);
/** The outcome is known: walks as far as others may have begun. */
tutti_status ride_drain(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark);
/** Ends the epoch of a plan that is DRAINING, if nothing is left to wait for. */
tutti_status ride_end(struct negotiator *negotiator, struct plan *plan);

/* plan_enter.c: plans in the log */

/** Reads a PLAN entry. */
tutti_status plan_apply(struct negotiator *negotiator, struct wire_reader *in);
/** A number of a plan is retired: there is no such plan any more. */
tutti_status plan_forget(struct negotiator *negotiator, struct entry *entry);
/** The plan of a lane was left: the one that waits for this begins. */
tutti_status lane_left(struct negotiator *negotiator, struct plan_lane *lane);
void plans_fini(struct negotiator *negotiator);

/* plan_marks.c: marks as messages */

tutti_status marks_receive_up(
        struct negotiator *negotiator, int from, struct wire_reader *in);
tutti_status marks_receive_down(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** Takes note of a poison of a plan that rides. */
void marks_note(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark);
/** Tells the outcome of a plan that this rank has left, before the plan may be gone. */
tutti_status marks_tell_outcome(struct negotiator *negotiator, struct plan *plan);
/** Tells what is new; at the coordinator, applies it, too. */
tutti_status marks_flush(struct negotiator *negotiator);

/* plan_append.c: PLAN entries, as the coordinator writes them */

/** A tensor that is to be planned. */
struct candidate {
    struct entry *entry;
    size_t place; /* among the candidates, as they were laid out              */
    size_t batch; /* that it was laid out in                                  */
};

/** It keeps its number, and nobody is known to give other metadata now. */
static inline bool entry_is_as_before(const struct entry *entry)
{
    return !entry->retired && entry->variants == NULL;
}

/** Room for that many negotiator->candidates. @return false: no memory */
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
bool learn_launch(
        struct negotiator *negotiator, struct entry *entry, tutti_status *status);
/** It failed: that was its turn in the iteration. */
void learn_failed(struct negotiator *negotiator, struct entry *entry);
/** It is launched whatever it is. */
void learn_note(struct negotiator *negotiator, struct entry *entry);
/** The coordinator has left a plan, because of a mark. */
void learn_left(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark);

/* plan_stall.c */

/** Reports planned tensors that others have not submitted. */
tutti_status plans_report(struct negotiator *negotiator);

/* stall.c */

tutti_status stall_receive(
        struct negotiator *negotiator, int from, int kind, struct wire_reader *in);

#endif
