/*
 * What a step produces: announcements or a log message, which grow until the flush;
 * actions for the caller; and outcomes of submissions.
 */
#include "agree/protocol.h"
#include "base/mem.h"

/* Bytes that are kept for the messages of a step. */
#define MESSAGE_KEPT_MAX 2048

static struct wire_writer *message_open(struct negotiator *negotiator)
{
    struct wire_writer *out;

    if (!is_coordinator(negotiator)) {
        out = &negotiator->outbox.up;
        if (out->len == 0) {
            wire_put_u8(out, KIND_ANNOUNCE);
        }
        return out;
    }
    out = &negotiator->outbox.down;
    if (out->len == 0) {
        wire_put_u8(out, KIND_LOG);
        wire_put_u64(out, negotiator->log.appended);
    }
    return out;
}

void run_close(struct negotiator *negotiator)
{
    struct number_run *run = &negotiator->outbox.run;
    struct wire_writer *out;

    if (run->count == 0) {
        return;
    }
    out = message_open(negotiator);
    wire_put_u8(out, run->tag);
    if (is_coordinator(negotiator)) {
        negotiator->log.appended += run->count;
    } else {
        wire_put_varint(out, (uint64_t)run->rank);
    }
    wire_put_varint(out, run->first);
    wire_put_varint(out, run->count);
    run->count = 0;
}

struct wire_writer *record_open(struct negotiator *negotiator, uint8_t tag)
{
    struct wire_writer *out;

    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, tag);
    negotiator->log.appended += is_coordinator(negotiator) ? 1 : 0;
    return out;
}

void run_put(struct negotiator *negotiator, uint8_t tag, int rank, uint64_t number)
{
    struct number_run *run = &negotiator->outbox.run;

    if (run->count > 0 && run->tag == tag && run->rank == rank &&
            run->first + run->count == number) {
        run->count++;
        return;
    }
    run_close(negotiator);
    *run = (struct number_run){ .first = number, .count = 1, .tag = tag, .rank = rank };
}

tutti_status action_add(struct negotiator *negotiator, enum action_kind kind, int to,
        const void *bytes, size_t len)
{
    struct outbox *box = &negotiator->outbox;
    const struct action action = {
        .kind = kind, .to = to, .offset = box->arena.len, .len = len
    };

    if (len > 0) {
        wire_put_bytes(&box->arena, bytes, len);
    }
    if (box->arena.failed ||
            !mem_grow(&box->actions, &box->action_capacity, box->action_count + 1,
                    sizeof *box->actions)) {
        return error_set(
                TUTTI_ERR_NO_MEMORY, "no memory for a message of %zu bytes", len);
    }
    box->actions[box->action_count++] = action;
    return TUTTI_OK;
}

tutti_status action_show(struct negotiator *negotiator, size_t index, uint64_t shown)
{
    const tutti_status status = action_add(negotiator, ACTION_SHOW, -1, NULL, 0);

    if (status == TUTTI_OK) {
        struct action *action =
                &negotiator->outbox.actions[negotiator->outbox.action_count - 1];

        action->index = index;
        action->shown = shown;
    }
    return status;
}

/* An outcome of this log message, to which the caller adds the rest; NULL: no memory. */
static struct outcome *outcome_new(struct negotiator *negotiator, int collective)
{
    struct outbox *box = &negotiator->outbox;
    struct outcome *outcome;

    if (!mem_grow(&box->outcomes, &box->outcome_capacity, box->outcome_count + 1,
                sizeof *box->outcomes)) {
        (void)error_set(TUTTI_ERR_NO_MEMORY, "no memory for a result");
        return NULL;
    }
    outcome = &box->outcomes[box->outcome_count++];
    *outcome = (struct outcome){ .log_message = negotiator->log.message,
        .joined = negotiator->joined.members,
        .collective = (uint8_t)collective };
    return outcome;
}

struct outcome *outcome_add(
        struct negotiator *negotiator, const struct tensor_state *tensor)
{
    struct outcome *outcome = outcome_new(negotiator, tensor->collective);

    if (outcome != NULL) {
        outcome->cookie = tensor->round.local->cookie;
    }
    return outcome;
}

tutti_status outcome_add_joined(
        struct negotiator *negotiator, int collective, const struct meta *meta)
{
    struct outcome *outcome = outcome_new(negotiator, collective);
    struct outbox *box = &negotiator->outbox;

    if (outcome == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    if (!mem_grow(&box->metas, &box->meta_capacity, box->meta_count + 1,
                sizeof *box->metas) ||
            !meta_copy(&box->metas[box->meta_count], meta)) {
        box->outcome_count--;
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a result");
    }
    outcome->meta = (uint32_t)box->meta_count++;
    return TUTTI_OK;
}

void message_reset(struct wire_writer *message)
{
    if (message->capacity > MESSAGE_KEPT_MAX) {
        wire_writer_fini(message);
    }
    wire_writer_reset(message);
}

static void forget_actions(struct outbox *box)
{
    box->action_count = 0;
    message_reset(&box->arena);
}

void outbox_clear(struct outbox *box)
{
    for (size_t i = 0; i < box->outcome_count; i++) {
        mem_free(box->outcomes[i].error);
    }
    for (size_t i = 0; i < box->meta_count; i++) {
        meta_fini(&box->metas[i]);
    }
    box->meta_count = 0;
    box->outcome_count = 0;
    forget_actions(box);
    message_reset(&box->operands);
}

void outbox_fini(struct outbox *box)
{
    outbox_clear(box);
    wire_writer_fini(&box->up);
    wire_writer_fini(&box->down);
    wire_writer_fini(&box->log_read);
    wire_writer_fini(&box->arena);
    wire_writer_fini(&box->operands);
    mem_free(box->actions);
    mem_free(box->outcomes);
    mem_free(box->metas);
}

tutti_status forward_down(struct negotiator *negotiator, const void *bytes, size_t len)
{
    const struct tree *tree = &negotiator->tree;

    for (int c = 0; c < tree->child_count; c++) {
        const tutti_status status =
                action_add(negotiator, ACTION_SEND, tree->children[c], bytes, len);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

/* The actions that pass a log message on. */
static tutti_status add_forwards(
        struct negotiator *negotiator, const void *bytes, size_t len)
{
    const struct tree *tree = &negotiator->tree;
    tutti_status status = TUTTI_OK;

    if (!negotiator->config.board) {
        return forward_down(negotiator, bytes, len);
    }
    if (tree->near_count > 0) {
        status = action_add(negotiator, ACTION_LOG, -1, bytes, len);
        if (status == TUTTI_OK) {
            negotiator->outbox.actions[negotiator->outbox.action_count - 1].sequence =
                    negotiator->log.messages;
        }
    }
    for (int c = 0; c < tree->child_count && status == TUTTI_OK; c++) {
        if (!tree->child_is_near[c]) {
            status = action_add(negotiator, ACTION_SEND, tree->children[c], bytes, len);
        }
    }
    return status;
}

tutti_status forward_log(struct negotiator *negotiator, const void *bytes, size_t len)
{
    struct outbox *box = &negotiator->outbox;
    tutti_status status = add_forwards(negotiator, bytes, len);

    if (status == TUTTI_OK && negotiator->config.act != NULL && box->action_count > 0) {
        status = negotiator->config.act(negotiator->config.user);
        forget_actions(box);
    }
    return status;
}
