/*
 * What the coordinator appends to the log: what is ready, what failed, numbers given and
 * retired; and the groups whose members wait for each other before that.
 */
#include <string.h>

#include "agree/groups.h"
#include "agree/joined.h"
#include "agree/log.h"
#include "agree/names.h"
#include "agree/protocol.h"
#include "base/mem.h"

/* How many numbers are looked at when one must be retired. */
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
}

/* Announcements by this number that arrive from now on are dropped. */
static void retire(struct negotiator *negotiator, struct tensor_state *tensor)
{
    run_put(negotiator, ENTRY_FORGET, 0, tensor->number);
    tensor->tally->retired = true;
    negotiator->log.retired_at =
            negotiator->log.appended + negotiator->outbox.run.count;
    bits_retire(negotiator, tensor, negotiator->log.retired_at);
}

/* Outside of a round. */
static bool is_retirable(const struct tensor_state *tensor)
{
    return tensor->round.since_ns == 0 && !tensor->tally->retired;
}

/* A name with row counts keeps them as long as it has a number: P * P of an alltoall. */
static bool has_room_for_row_counts(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return tensor->tally->row_counts == NULL ||
            negotiator->names.row_count_bytes <= negotiator->config.row_count_bytes_max;
}

/*
 * Of the first few in the list the one used longest ago; the others stand behind all then, so that
 * the next time others are looked at. False: all of them are in use.
 */
static bool retire_oldest(struct negotiator *negotiator)
{
    struct tensor_state *oldest = NULL;

    for (int i = 0; i < RETIRE_TRIES && negotiator->names.numbered.first != NULL; i++) {
        struct tensor_state *tensor = negotiator->names.numbered.first;

        tensor_number_passed(negotiator, tensor);
        if (is_retirable(tensor) &&
                (oldest == NULL ||
                        tensor->tally->decided_at < oldest->tally->decided_at)) {
            oldest = tensor;
        }
    }
    if (oldest != NULL) {
        retire(negotiator, oldest);
    }
    return oldest != NULL;
}

/*
 * A new number, if there is room or an idle one can be retired, and its place is free; else 0,
 * and the name is used again.
 */
static uint64_t number_for(
        struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const size_t capacity = (size_t)negotiator->config.number_capacity;

    if (capacity == 0 || tensor->tally->uses == 0 ||
            tensor->collective >= META_SET_CREATE ||
            !has_room_for_row_counts(negotiator, tensor)) {
        return 0;
    }
    if (negotiator->names.numbered.count + negotiator->names.assigned_in_message <
            capacity) {
        negotiator->names.assigned_in_message++;
        return bits_new_number(negotiator, tensor->tally->variants->seen);
    }
    return retire_oldest(negotiator)
            ? bits_new_number(negotiator, tensor->tally->variants->seen)
            : 0;
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

static void note_appended(
        const struct negotiator *negotiator, struct tensor_state *tensor)
{
    tensor->tally->uses++;
    tensor->tally->decided_at = negotiator->log.appended + negotiator->outbox.run.count;
    tensor->tally->decided = true;
}

void append_number(struct negotiator *negotiator, struct tensor_state *tensor)
{
    run_put(negotiator, ENTRY_NUMBERS, 0, tensor->number);
    note_appended(negotiator, tensor);
}

void append_operands(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct operands *operands = tensor->tally->operands;
    struct wire_writer *out = record_open(negotiator, ENTRY_OPERANDS);

    wire_put_varint(out, tensor->number);
    wire_put_str(out, (const char *)operands->bytes,
            operands->len * (size_t)negotiator->config.size);
    note_appended(negotiator, tensor);
}

static tutti_status append_now(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    tutti_status status = TUTTI_OK;

    if (negotiator->joined.ways[LEAVE_JOIN].count > 0) {
        joined_append(negotiator, tensor);
    }
    if (tensor->tally->variants == NULL && tensor->tally->moved) {
        wire_put_varint(record_open(negotiator, ENTRY_MIXED), tensor->number);
    } else if (tensor->tally->variants == NULL) {
        run_put(negotiator, ENTRY_NUMBERS, 0, tensor->number);
    } else if (tensor_is_stepped(tensor)) {
        append_step(negotiator, tensor);
    } else {
        status = append_named(negotiator, tensor);
    }
    note_appended(negotiator, tensor);
    return status;
}

/* ------------------------------------------------------------------ groups */

/* All members, in the order of completion. */
static tutti_status append_group(
        struct negotiator *negotiator, const struct group *group)
{
    tutti_status status = TUTTI_OK;

    for (struct tensor_state *e = group->first; e != NULL && status == TUTTI_OK;
            e = e->tally->group_next) {
        status = append_now(negotiator, e);
    }
    return status;
}

static tutti_status group_member_ready(struct negotiator *negotiator,
        struct tensor_state *tensor, const struct meta *meta)
{
    struct group *group = group_get(negotiator, meta->group);
    tutti_status status;

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
    status = append_group(negotiator, group);
    group_put(negotiator, group);
    return status;
}

tutti_status append_ready(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct meta *meta = round_meta(tensor);

    return meta->group != 0 ? group_member_ready(negotiator, tensor, meta)
                            : append_now(negotiator, tensor);
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
            e = e->tally->in_numbered.next) {
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
