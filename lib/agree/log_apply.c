/*
 * Applying a log message. Every member, the coordinator included, runs this on the
 * same bytes.
 */
#include <stdio.h>

#include "agree/announce.h"
#include "agree/groups.h"
#include "agree/joined.h"
#include "agree/log.h"
#include "agree/names.h"
#include "agree/protocol.h"
#include "base/mem.h"
#include "base/status.h"

/* Bounds what a malformed message can make us do. */
#define MESSAGE_NUMBERS_MAX (UINT64_C(1) << 20)

/*
 * True when this rank has announced what the number stands for with that step: by number,
 * or, as it had new row counts, by name.
 */
static bool is_announced(const struct negotiator *negotiator,
        const struct tensor_state *tensor, uint64_t step)
{
    if (is_joined(negotiator)) {
        return !tensor->round.pending;
    }
    if (!tensor->round.pending) {
        return false;
    }
    if (tensor->round.by_number) {
        return step == steps_next(&tensor->steps);
    }
    return meta_equal(&tensor->meta, &tensor->round.local->meta) &&
            tensor->round.local->meta.step == step;
}

static tutti_status number_is_ready(
        struct negotiator *negotiator, struct tensor_state *tensor, uint64_t step)
{
    struct outcome *outcome;
    tutti_status status = TUTTI_OK;

    if (!is_announced(negotiator, tensor, step)) {
        return corrupt("a tensor is ready that this rank did not announce");
    }
    steps_take(&tensor->steps, step);
    if (negotiator->bits.pace == 0) {
        negotiator->bits.pace = tensor->number;
    }
    negotiator->stats.steps += negotiator->bits.pace == tensor->number;
    if (tensor->round.pending) {
        outcome = outcome_add(negotiator, tensor);
        if (outcome != NULL) {
            outcome->mixed = tensor->meta.spot == META_SPOT_MIXED;
        } else {
            status = TUTTI_ERR_NO_MEMORY;
        }
    } else {
        status = outcome_add_joined(negotiator, tensor->collective, &tensor->meta);
    }
    tensor_end_round(negotiator, tensor);
    return status;
}

static tutti_status unknown_number(void)
{
    return corrupt("a number is ready that was never given");
}

static tutti_status apply_number(struct negotiator *negotiator, uint64_t number)
{
    struct tensor_state *tensor = tensor_by_number(negotiator, number);

    if (tensor == NULL) {
        return unknown_number();
    }
    return number_is_ready(negotiator, tensor, steps_next(&tensor->steps));
}

/* What this rank gives to a tensor, if it has announced it; 0: nothing. */
static size_t operand_length(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const void *bytes;

    return negotiator->config.operand != NULL && tensor->round.pending
            ? negotiator->config.operand(
                      negotiator->config.user, tensor->round.local, &bytes)
            : 0;
}

/* As a number, with the operands of all members. */
static tutti_status apply_operands(
        struct negotiator *negotiator, struct wire_reader *in)
{
    const size_t size = (size_t)negotiator->config.size;
    const uint64_t number = wire_get_varint(in);
    size_t len;
    const char *bytes = wire_get_str(in, NEGOTIATOR_OPERAND_BYTES, &len);
    struct tensor_state *tensor = tensor_by_number(negotiator, number);
    struct outbox *box = &negotiator->outbox;
    struct outcome *outcome;
    tutti_status status;

    if (wire_ok(in) && tensor == NULL) {
        return unknown_number();
    }
    if (!wire_ok(in) || len == 0 || len != size * operand_length(negotiator, tensor)) {
        return corrupt("malformed operands");
    }
    negotiator->log.length++;
    bits_end_rounds(negotiator, number, 1);
    status = number_is_ready(negotiator, tensor, steps_next(&tensor->steps));
    if (status != TUTTI_OK) {
        return status;
    }
    outcome = &box->outcomes[box->outcome_count - 1];
    outcome->operands = (uint32_t)box->operands.len;
    outcome->operand_len = (uint16_t)(len / size);
    wire_put_bytes(&box->operands, bytes, len);
    return box->operands.failed
            ? error_set(TUTTI_ERR_NO_MEMORY, "no memory for operands")
            : TUTTI_OK;
}

/* As a number, but not with the step that was expected. */
static tutti_status apply_step(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t number = wire_get_varint(in);
    const uint64_t step = wire_get_varint(in);
    struct tensor_state *tensor;

    if (!wire_ok(in)) {
        return corrupt("malformed step");
    }
    tensor = tensor_by_number(negotiator, number);
    if (tensor == NULL) {
        return unknown_number();
    }
    negotiator->log.length++;
    bits_end_rounds(negotiator, number, 1);
    return number_is_ready(negotiator, tensor, step);
}

/* As a number; it stands for any spot from now on. */
static tutti_status apply_mixed(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t number = wire_get_varint(in);
    struct tensor_state *tensor = tensor_by_number(negotiator, number);

    if (!wire_ok(in) || tensor == NULL) {
        return unknown_number();
    }
    bits_end_rounds(negotiator, number, 1);
    negotiator->log.length++;
    tensor->meta.spot = META_SPOT_MIXED;
    return number_is_ready(negotiator, tensor, steps_next(&tensor->steps));
}

/*
 * A number is retired. Announcements of it that the subtree made are void. If this rank
 * waits on one of its own, it announces it again by name; so do the ranks below, each when
 * it reads this.
 */
static tutti_status apply_forget(struct negotiator *negotiator, uint64_t number)
{
    struct tensor_state *tensor = tensor_by_number(negotiator, number);

    if (tensor == NULL) {
        return corrupt("a number is retired that was never given");
    }
    negotiator->log.forgot = true;
    tensor_clear_number(negotiator, tensor);
    if (tensor->round.since_ns == 0) {
        return TUTTI_OK;
    }
    tensor->round.split = false;
    if (is_coordinator(negotiator)) {
        /* It took no numbers since it retired this one: what is here came by name. */
        return TUTTI_OK;
    }
    if (tensor->round.parts != NULL) {
        bitset_clear(&tensor->round.parts->who);
    }
    if (!tensor->round.pending) {
        tensor_end_round(negotiator, tensor);
        return TUTTI_OK;
    }
    if (!tensor->round.by_number) {
        return TUTTI_OK;
    }
    tensor->round.by_number = false;
    return announce_own(negotiator, tensor);
}

static tutti_status apply_numbers(
        struct negotiator *negotiator, struct wire_reader *in, uint8_t tag)
{
    const uint64_t first = wire_get_varint(in);
    const uint64_t count = wire_get_varint(in);

    if (!wire_ok(in) || first == 0 || first > UINT64_MAX - MESSAGE_NUMBERS_MAX ||
            count > MESSAGE_NUMBERS_MAX) {
        return corrupt("malformed numbers");
    }
    if (tag == ENTRY_NUMBERS && negotiator->bits.places > 0) {
        bits_end_rounds(negotiator, first, count);
    }
    for (uint64_t i = 0; i < count; i++) {
        const tutti_status status = tag == ENTRY_NUMBERS
                ? apply_number(negotiator, first + i)
                : apply_forget(negotiator, first + i);

        if (status != TUTTI_OK) {
            return status;
        }
        negotiator->log.length++;
    }
    return TUTTI_OK;
}

/* The tensor of a name that is ready; a rank that has joined may never have seen it. */
static tutti_status named_tensor(struct negotiator *negotiator,
        const struct name_ref *ref, struct tensor_state **tensor)
{
    const bool joined = is_joined(negotiator);
    struct tensor_state *found = tensor_find(negotiator, ref);

    if (joined && found == NULL) {
        found = tensor_get(negotiator, ref);
        if (found == NULL) {
            return no_memory_for(ref->name, ref->name_len);
        }
    }
    if (found == NULL || found->round.pending == joined || found->round.by_number) {
        return corrupt("a name is ready that this rank did not announce");
    }
    *tensor = found;
    return TUTTI_OK;
}

/* Hands out what is ready; a join tells who was last. */
static tutti_status name_is_ready(struct negotiator *negotiator,
        struct tensor_state *tensor, const struct meta *meta)
{
    struct outcome *outcome;

    if (!tensor->round.pending) {
        return outcome_add_joined(negotiator, tensor->collective, meta);
    }
    outcome = outcome_add(negotiator, tensor);
    if (outcome == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    outcome->mixed = meta->spot == META_SPOT_MIXED;
    if (tensor->collective == META_JOIN) {
        outcome->last = meta->root;
    }
    return TUTTI_OK;
}

static tutti_status remember_number(struct negotiator *negotiator,
        struct tensor_state *tensor, uint64_t number, const struct meta *meta)
{
    if (number == 0) {
        return TUTTI_OK;
    }
    if (!tensor_set_number(negotiator, tensor, number, meta)) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    return TUTTI_OK;
}

/* The round of a tensor is over; if all members have joined or finalized, so is that. */
static void end_round(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct leave *leave = leave_of(negotiator, tensor->collective);

    if (leave != NULL) {
        leave_end(negotiator, leave);
    }
    tensor_end_round(negotiator, tensor);
}

static tutti_status apply_name(struct negotiator *negotiator, struct wire_reader *in)
{
    struct name_ref ref;
    struct meta meta;
    struct tensor_state *tensor;
    uint64_t number;
    tutti_status status;

    if (!name_get(in, &ref)) {
        return corrupt("malformed name");
    }
    status = meta_get(in, &meta, &negotiator->dims, &negotiator->dims_capacity);
    if (status != TUTTI_OK) {
        return status;
    }
    number = wire_get_varint(in);
    if (!wire_ok(in) || meta.root >= negotiator->config.size) {
        return corrupt("malformed name");
    }
    status = named_tensor(negotiator, &ref, &tensor);
    if (status != TUTTI_OK) {
        return status;
    }
    if (number != 0 && (tensor->number != 0 || !bits_is_free(negotiator, number))) {
        return corrupt("a number is given twice");
    }
    negotiator->log.length++;
    status = name_is_ready(negotiator, tensor, &meta);
    if (status == TUTTI_OK) {
        status = remember_number(negotiator, tensor, number, &meta);
    }
    end_round(negotiator, tensor);
    return status;
}

/* A reason for failing as it arrived; the text is borrowed and not terminated. */
struct failure {
    tutti_status status;
    int rank;
    const char *text;
    size_t text_len;
};

static bool failure_get(struct wire_reader *in, struct failure *failure)
{
    const int64_t reason = wire_get_svarint(in);
    const uint64_t rank_plus_one = wire_get_varint(in);

    failure->text = wire_get_str(in, ERROR_TEXT_MAX - 1, &failure->text_len);
    if (!wire_ok(in) || !status_is_valid(reason) || reason >= 0 ||
            rank_plus_one > INT32_MAX) {
        return false;
    }
    failure->status = (tutti_status)reason;
    failure->rank = (int)rank_plus_one - 1;
    return true;
}

/* An error for one tensor, of its own or because its group failed. */
static tutti_status fail_tensor(struct negotiator *negotiator,
        struct tensor_state *tensor, const struct failure *failure, const char *intro)
{
    struct error *error = mem_calloc(1, sizeof *error);
    struct outcome *outcome;

    if (error == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an error");
    }
    outcome = outcome_add(negotiator, tensor);
    if (outcome == NULL) {
        mem_free(error);
        return TUTTI_ERR_NO_MEMORY;
    }
    error_fill(error, failure->status, failure->rank, "%s%.*s", intro,
            (int)failure->text_len, failure->text);
    outcome->error = error;
    outcome->joined = NULL;
    return TUTTI_OK;
}

static tutti_status apply_failed(struct negotiator *negotiator, struct wire_reader *in)
{
    struct name_ref ref;
    struct failure failure;
    struct tensor_state *tensor;
    tutti_status status = TUTTI_OK;

    if (!name_get(in, &ref) || !failure_get(in, &failure)) {
        return corrupt("malformed failure");
    }
    negotiator->log.length++;
    tensor = tensor_find(negotiator, &ref);
    /* Else its group failed just before, in this log message; or this rank has left. */
    if (tensor != NULL && tensor->round.pending) {
        status = fail_tensor(negotiator, tensor, &failure, "");
    }
    if (tensor != NULL) {
        if (tensor->number != 0 && !is_retired(tensor)) {
            bits_end_rounds(negotiator, tensor->number, 1);
        }
        end_round(negotiator, tensor);
    }
    return status;
}

/* Nobody's announcement is left here, so that the round is over. */
static bool is_forsaken(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    if (tensor->round.pending) {
        return false;
    }
    if (is_coordinator(negotiator)) {
        return tensor->tally->arrived + tensor->tally->named == 0;
    }
    return !tensor->round.split &&
            (tensor->round.parts == NULL || bitset_is_empty(&tensor->round.parts->who));
}

/* Takes out what others announced of a tensor as part of a group. */
static void drop_announcements(struct tensor_state *tensor, uint64_t group)
{
    coordinator_drop_variants(tensor, group);
    if (tensor->number == 0 || tensor->meta.group != group ||
            tensor->round.parts == NULL) {
        return;
    }
    bitset_clear(&tensor->round.parts->who);
    if (tensor->tally != NULL) {
        tensor->tally->arrived = 0;
    }
}

static tutti_status fail_in_group(struct negotiator *negotiator,
        struct tensor_state *tensor, uint64_t group, const struct failure *failure)
{
    const bool own = tensor->round.pending && tensor->round.local->meta.group == group;
    char intro[TUTTI_NAME_MAX + 64];
    tutti_status status = TUTTI_OK;

    drop_announcements(tensor, group);
    if (own) {
        (void)snprintf(intro, sizeof intro, "%s \"%s\" failed with its group: ",
                meta_collective_name(tensor->collective), tensor->name);
        status = fail_tensor(negotiator, tensor, failure, intro);
        tensor->round.pending = false;
        tensor->round.by_number = false;
    }
    /*
     * Else some rank submitted this tensor outside that group. Of a cancellation alone, whose
     * announcement was void, it is not known; it goes as those that are sent before this is read.
     */
    if (is_forsaken(negotiator, tensor)) {
        tensor_end_round(negotiator, tensor);
    }
    return status;
}

static tutti_status apply_group_failed(
        struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t group = wire_get_u64(in);
    struct tensor_state *next;
    struct failure failure;
    tutti_status status = TUTTI_OK;

    if (!failure_get(in, &failure) || group == 0) {
        return corrupt("malformed failure of a group");
    }
    negotiator->log.length++;
    group_drop(negotiator, group);
    for (struct tensor_state *e = negotiator->names.active.first;
            e != NULL && status == TUTTI_OK; e = next) {
        next = e->links.next;
        status = fail_in_group(negotiator, e, group, &failure);
    }
    return status;
}

static tutti_status apply_entry(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint8_t tag = wire_get_u8(in);

    if (tag == ENTRY_NUMBERS || tag == ENTRY_FORGET) {
        return apply_numbers(negotiator, in, tag);
    }
    if (tag == ENTRY_NAME) {
        return apply_name(negotiator, in);
    }
    if (tag == ENTRY_OPERANDS) {
        return apply_operands(negotiator, in);
    }
    if (tag == ENTRY_STEP) {
        return apply_step(negotiator, in);
    }
    if (tag == ENTRY_MIXED) {
        return apply_mixed(negotiator, in);
    }
    if (tag == ENTRY_FAILED) {
        return apply_failed(negotiator, in);
    }
    if (tag == ENTRY_GROUP_FAILED) {
        return apply_group_failed(negotiator, in);
    }
    if (tag == ENTRY_JOINED) {
        negotiator->log.length++;
        return joined_apply(negotiator, in);
    }
    return corrupt("unknown tensor");
}

/* Others have more to do than those that have joined: that is no stall. */
static void joins_restart(struct negotiator *negotiator)
{
    for (struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (e->collective == META_JOIN) {
            tensor_restart(negotiator, e);
            return;
        }
    }
}

/* This rank's own again, behind what it announces again in this log message. */
static tutti_status leaves_announce_again(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    for (int p = 0; p < LEAVE_COUNT && status == TUTTI_OK; p++) {
        if (negotiator->joined.ways[p].own != NULL) {
            status = announce_own(negotiator, negotiator->joined.ways[p].own);
        }
    }
    return status;
}

tutti_status log_apply(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t index = wire_get_u64(in);

    if (!wire_ok(in) || index != negotiator->log.length) {
        return corrupt("entries are missing");
    }
    negotiator->log.message = index;
    negotiator->log.forgot = false;
    negotiator->log.went_on = false;
    while (wire_left(in) > 0) {
        const tutti_status status = apply_entry(negotiator, in);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    negotiator->joined.members = NULL;
    negotiator->names.assigned_in_message = 0;
    negotiator->log.messages++;
    if (negotiator->log.went_on) {
        joins_restart(negotiator);
    }
    return negotiator->log.forgot && !is_coordinator(negotiator)
            ? leaves_announce_again(negotiator)
            : TUTTI_OK;
}
