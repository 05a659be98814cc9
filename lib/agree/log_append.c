/*
 * What the coordinator appends to the log: what is ready, what failed, numbers given and
 * retired; and the groups whose members wait for each other before that.
 */
#include <string.h>

#include "agree/groups.h"
#include "agree/joined.h"
#include "agree/learn.h"
#include "agree/log.h"
#include "agree/names.h"
#include "agree/protocol.h"
#include "base/mem.h"

/* How many numbers are looked at, those used longest ago, when one must be retired. */
#define RETIRE_TRIES 8

/* ------------------------------------------------- appending to the log */

static void failure_put(
        struct wire_writer *out, tutti_status reason, int rank, const char *text)
{
    wire_put_svarint(out, reason);
    wire_put_varint(out, (uint64_t)rank + 1);
    wire_put_str(out, text, strnlen(text, ERROR_TEXT_MAX - 1));
}

static void append_failed(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status reason, int rank, const char *text)
{
    const struct name_ref ref = tensor_ref(tensor);
    struct wire_writer *out = record_open(negotiator, ENTRY_FAILED);

    name_put(out, &ref);
    failure_put(out, reason, rank, text);
    tensor->tally->decided_at = negotiator->log.appended;
    tensor->tally->decided = true;
    learn_failed(negotiator, tensor);
}

/* Announcements by this number that arrive from now on are dropped. */
static void retire(struct negotiator *negotiator, struct tensor_state *tensor)
{
    run_put(negotiator, ENTRY_FORGET, 0, tensor->number);
    tensor->tally->retired = true;
    negotiator->log.retired_at =
            negotiator->log.appended + negotiator->outbox.run.count;
}

/* Outside of a round, and in no plan at any rank. */
static bool is_retirable(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const struct plan *follower =
            negotiator->plans.lanes[tensor->tally->left_lane].current;

    return tensor->round.since_ns == 0 && !tensor->tally->retired &&
            tensor->plan == NULL && !tensor->tally->planning &&
            (follower == NULL || plan_is_entered(follower));
}

/* A name with row counts keeps them as long as it has a number: P * P of an alltoall. */
static bool has_room_for_row_counts(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return tensor->tally->row_counts == NULL ||
            negotiator->names.row_count_bytes <= negotiator->config.row_count_bytes_max;
}

/* Numbers that plans hold, used or not: they take no room from names that come later. */
static size_t numbers_of_plans(const struct negotiator *negotiator)
{
    size_t count = 0;

    for (int l = 0; l < PLAN_LANES_MAX; l++) {
        const struct plan_lane *lane = &negotiator->plans.lanes[l];

        count += lane->current != NULL ? lane->current->item_count : 0;
        count += lane->next != NULL ? lane->next->item_count : 0;
    }
    return count;
}

/*
 * False if none of those looked at may go. They are in use, however long ago they came to
 * be so, and stand behind the others then: the next one finds other numbers.
 */
static bool retire_oldest(struct negotiator *negotiator)
{
    for (int i = 0; i < RETIRE_TRIES && negotiator->names.numbered.first != NULL; i++) {
        struct tensor_state *oldest = negotiator->names.numbered.first;
        const bool retires = is_retirable(negotiator, oldest);

        tensor_number_used(negotiator, oldest);
        if (retires) {
            retire(negotiator, oldest);
            return true;
        }
    }
    return false;
}

/* A new number, if there is room or an idle one can be retired; else 0. */
static uint64_t number_for(
        struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const size_t capacity = (size_t)negotiator->config.number_capacity;
    size_t room;

    if (capacity == 0 || tensor->tally->uses == 0 ||
            tensor->collective >= META_SET_CREATE ||
            !has_room_for_row_counts(negotiator, tensor)) {
        return 0;
    }
    room = capacity + numbers_of_plans(negotiator);
    if (negotiator->names.numbered.count + negotiator->names.assigned_in_message <
            room) {
        negotiator->names.assigned_in_message++;
        return negotiator->names.next_number++;
    }
    if (!retire_oldest(negotiator)) {
        return 0;
    }
    if (negotiator->names.numbered.count > room) {
        /* A plan was dissolved: its numbers go two for one. */
        (void)retire_oldest(negotiator);
    }
    return negotiator->names.next_number++;
}

static tutti_status append_named(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct name_ref ref = tensor_ref(tensor);
    struct meta meta = *round_meta(tensor);
    struct wire_writer *out;
    uint64_t number;

    meta.row_counts = 0;
    if (tensor->collective == META_JOIN) {
        meta.root = negotiator->joined.ways[LEAVE_JOIN].last;
    }
    if (tensor->number != 0 && !tensor->tally->retired) {
        /* The name is used with other metadata now. */
        retire(negotiator, tensor);
        tensor->tally->uses = 0;
    }
    number = number_for(negotiator, tensor);
    out = record_open(negotiator, ENTRY_NAME);
    name_put(out, &ref);
    meta_put(out, &meta);
    wire_put_varint(out, number);
    return TUTTI_OK;
}

static void append_step(
        struct negotiator *negotiator, const struct tensor_state *tensor)
{
    struct wire_writer *out = record_open(negotiator, ENTRY_STEP);

    wire_put_varint(out, tensor->number);
    wire_put_varint(out, tensor->tally->variants->meta.step);
}

static tutti_status append_now(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    tutti_status status = TUTTI_OK;

    if (negotiator->joined.ways[LEAVE_JOIN].count > 0) {
        joined_append(negotiator, tensor);
    }
    if (tensor->tally->variants == NULL) {
        run_put(negotiator, ENTRY_NUMBERS, 0, tensor->number);
    } else if (tensor_is_stepped(tensor)) {
        append_step(negotiator, tensor);
    } else {
        status = append_named(negotiator, tensor);
    }
    tensor->tally->uses++;
    tensor->tally->decided_at = negotiator->log.appended + negotiator->outbox.run.count;
    tensor->tally->decided = true;
    return status;
}

/* ------------------------------------------------------------------ groups */

/* All members, in the order of completion; the first is noted already. */
static tutti_status append_group(
        struct negotiator *negotiator, const struct group *group, tutti_status status)
{
    for (struct tensor_state *e = group->first; e != NULL && status == TUTTI_OK;
            e = e->tally->group_next) {
        if (e != group->first) {
            learn_note(negotiator, e);
        }
        status = append_now(negotiator, e);
    }
    return status;
}

static tutti_status group_member_ready(struct negotiator *negotiator,
        struct tensor_state *tensor, const struct meta *meta)
{
    struct group *group = group_get(negotiator, meta->group);
    tutti_status status = TUTTI_OK;

    if (group == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group");
    }
    if (group->last != NULL) {
        group->last->tally->group_next = tensor;
    } else {
        group->first = tensor;
    }
    group->last = tensor;
    tensor->tally->group_next = NULL;
    tensor->tally->decided = true;
    group->ready++;
    if (group->ready < meta->group_size) {
        return TUTTI_OK;
    }
    if (!learn_launch(negotiator, group->first, &status)) {
        status = append_group(negotiator, group, status);
    }
    group_put(negotiator, group);
    return status;
}

tutti_status append_ready(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct meta *meta = round_meta(tensor);

    tutti_status status = TUTTI_OK;

    if (meta->group != 0) {
        return group_member_ready(negotiator, tensor, meta);
    }
    if (learn_launch(negotiator, tensor, &status) || status != TUTTI_OK) {
        return status;
    }
    return append_now(negotiator, tensor);
}

/* What is here of the group is taken out when the entry is applied, with this log message. */
static tutti_status fail_group(struct negotiator *negotiator, uint64_t hash,
        tutti_status reason, int rank, const char *text)
{
    struct wire_writer *out;

    out = record_open(negotiator, ENTRY_GROUP_FAILED);
    wire_put_u64(out, hash);
    failure_put(out, reason, rank, text);
    for (struct tensor_state *e = negotiator->names.numbered.first; e != NULL;
            e = e->tally->by_use.next) {
        if (e->meta.group == hash && !e->tally->retired) {
            retire(negotiator, e);
        }
    }
    return group_remember_failed(negotiator, hash);
}

/* The tensor fails, and so do all groups that some rank submitted it in. */
tutti_status append_failure(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status reason, int rank, const char *text)
{
    tutti_status status = TUTTI_OK;
    uint64_t failed = 0;

    append_failed(negotiator, tensor, reason, rank, text);
    if (tensor->tally->arrived > 0 && tensor->meta.group != 0) {
        failed = tensor->meta.group;
        status = fail_group(negotiator, failed, reason, rank, text);
    }
    for (const struct variant *v = tensor->tally->variants;
            v != NULL && status == TUTTI_OK; v = v->next) {
        if (v->meta.group != 0 && v->meta.group != failed) {
            failed = v->meta.group;
            status = fail_group(negotiator, failed, reason, rank, text);
        }
    }
    return status;
}
