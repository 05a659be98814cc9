/*
 * The entry points of the room: events in, one flush, actions and outcomes out.
 */
#include "agree/negotiator.h"

#include <string.h>

#include "agree/announce.h"
#include "agree/groups.h"
#include "agree/joined.h"
#include "agree/log.h"
#include "agree/names.h"
#include "agree/numbers.h"
#include "agree/protocol.h"
#include "agree/stall.h"
#include "base/mem.h"

/* Numbers of room for decoding that are kept; a set that is created may have more members. */
#define DIMS_KEPT_MAX 256

tutti_status negotiator_init(
        struct negotiator *negotiator, const struct negotiator_config *config)
{
    *negotiator = (struct negotiator){ .config = *config,
        .names = { .next_number = 1, .numbered.of_numbers = true },
        .bits.places = (uint64_t)config->number_capacity };
    if (!tree_init(&negotiator->tree, config->shape, config->rank)) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the coordination of %d ranks", config->size);
    }
    negotiator->config.shape = NULL;
    if (is_coordinator(negotiator) && !joined_init(negotiator)) {
        tree_fini(&negotiator->tree);
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the coordination of %d ranks", config->size);
    }
    return TUTTI_OK;
}

void negotiator_fini(struct negotiator *negotiator)
{
    groups_fini(negotiator);
    leaves_fini(negotiator);
    joined_fini(negotiator);
    names_fini(negotiator);
    tree_fini(&negotiator->tree);
    outbox_fini(&negotiator->outbox);
    mem_free(negotiator->dims);
    *negotiator = (struct negotiator){ 0 };
}

tutti_status negotiator_submit(
        struct negotiator *negotiator, const struct request *request)
{
    struct tensor_state *tensor = tensor_of(negotiator, request);
    struct leave *leave;

    if (tensor == NULL) {
        return no_memory_for(request->name, request->name_len);
    }
    if (tensor->round.pending) {
        return error_set(
                TUTTI_ERR_INTERNAL, "\"%s\" was submitted twice", tensor->name);
    }
    tensor_activate(negotiator, tensor);
    tensor->round.pending = true;
    tensor->round.local = request;
    leave = leave_of(negotiator, request->collective);
    if (leave != NULL) {
        leave->own = tensor;
    }
    return announce_pending(negotiator, tensor);
}

tutti_status negotiator_cancel(
        struct negotiator *negotiator, const struct request *request)
{
    const struct name_ref ref = request_ref(request);
    struct tensor_state *tensor =
            request->tensor != NULL ? request->tensor : tensor_find(negotiator, &ref);

    if (tensor == NULL || !tensor->round.pending ||
            tensor->round.local->cookie != request->cookie) {
        /* Its outcome is there already and was not taken yet. */
        return TUTTI_OK;
    }
    if (request->collective == META_JOIN) {
        /* Others have gone on without this rank. */
        return TUTTI_OK;
    }
    tensor->round.cancel = true;
    return announce_cancel(negotiator, tensor);
}

/* Only the parent sends the log down, and only children (or those below) speak up. */
static bool is_child_message(const struct negotiator *negotiator, int from, int kind)
{
    return kind == KIND_ANNOUNCE && tree_child_index(&negotiator->tree, from) >= 0;
}

static bool is_parent_message(const struct negotiator *negotiator, int from, int kind)
{
    return (kind == KIND_LOG || kind == KIND_WAITING) &&
            negotiator->tree.parent == from;
}

tutti_status negotiator_receive(
        struct negotiator *negotiator, int from, const void *bytes, size_t len)
{
    struct wire_reader in;
    tutti_status status;
    int kind;

    wire_reader_init(&in, bytes, len);
    kind = wire_get_u8(&in);
    if (!is_child_message(negotiator, from, kind) &&
            !is_parent_message(negotiator, from, kind)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "unexpected message of kind %d from rank %d", kind, from);
    }
    if (kind == KIND_ANNOUNCE) {
        return announce_receive(negotiator, from, &in);
    }
    if (kind == KIND_WAITING) {
        return wire_left(&in) == 0 ? stalls_receive(negotiator)
                                   : malformed(negotiator, "sign of life", from);
    }
    status = forward_log(negotiator, bytes, len);
    return status == TUTTI_OK ? log_apply(negotiator, &in) : status;
}

/* How often to look: a quarter of the shorter of both times. */
static int64_t tick_interval(const struct negotiator *negotiator)
{
    const int64_t warn = negotiator->config.stall_ns;
    const int64_t fail = negotiator->config.stall_fail_ns;

    return (fail > 0 && (warn == 0 || fail < warn) ? fail : warn) / 4;
}

tutti_status negotiator_tick(struct negotiator *negotiator)
{
    const tutti_status status = stalls_fail(negotiator);

    negotiator->stall.ticked_ns = negotiator->now_ns;
    return status == TUTTI_OK && negotiator->config.stall_ns > 0
            ? stalls_report(negotiator)
            : status;
}

int64_t negotiator_next_tick(const struct negotiator *negotiator)
{
    const int64_t interval = tick_interval(negotiator);
    const struct tensor_state *oldest = negotiator->names.active.first;
    int64_t first;

    if (interval == 0 || oldest == NULL) {
        return INT64_MAX;
    }
    first = oldest->round.since_ns + interval;
    if (negotiator->stall.ticked_ns + interval > first) {
        first = negotiator->stall.ticked_ns + interval;
    }
    return first;
}

bool negotiator_is_dirty(const struct negotiator *negotiator)
{
    return negotiator->outbox.run.count > 0 || negotiator->outbox.up.len > 0 ||
            negotiator->outbox.down.len > 0 || negotiator->bits.dirty;
}

/*
 * The coordinator reads its own log message exactly as the other members do. What it announces
 * again by that is for the next log message.
 */
static tutti_status flush_log(struct negotiator *negotiator)
{
    struct wire_writer *message = &negotiator->outbox.log_read;
    const struct wire_writer written = negotiator->outbox.down;
    struct wire_reader in;
    tutti_status status;

    negotiator->outbox.down = *message;
    *message = written;
    wire_writer_reset(&negotiator->outbox.down);
    bitset_clear(&negotiator->joined.logged);
    status = forward_log(negotiator, message->data, message->len);
    if (status != TUTTI_OK) {
        return status;
    }
    wire_reader_init(&in, message->data, message->len);
    (void)wire_get_u8(&in);
    return log_apply(negotiator, &in);
}

tutti_status negotiator_flush(struct negotiator *negotiator)
{
    struct wire_writer *up = &negotiator->outbox.up;

    do {
        tutti_status status = numbers_flush(negotiator);

        if (status != TUTTI_OK) {
            return status;
        }
        run_close(negotiator);
        if (up->failed || negotiator->outbox.down.failed) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
        }
        if (negotiator->outbox.down.len > 0) {
            status = flush_log(negotiator);
        }
        if (status == TUTTI_OK && up->len > 0) {
            status = action_add(negotiator, ACTION_SEND, negotiator->tree.parent,
                    up->data, up->len);
            message_reset(up);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    } while (negotiator_is_dirty(negotiator));
    return TUTTI_OK;
}

void negotiator_clear(struct negotiator *negotiator)
{
    if (negotiator->joined.sets != NULL) {
        joined_clear(negotiator);
    }
    outbox_clear(&negotiator->outbox);
    if (negotiator->dims_capacity > DIMS_KEPT_MAX) {
        mem_free(negotiator->dims);
        negotiator->dims = NULL;
        negotiator->dims_capacity = 0;
    }
}

static bool collected_is_valid(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const int arrived =
            tensor->round.parts != NULL ? bitset_count(&tensor->round.parts->who) : 0;
    int named = 0;

    for (const struct variant *v = tensor->tally->variants; v != NULL; v = v->next) {
        named += bitset_count(&v->ranks);
    }
    return arrived == tensor->tally->arrived && named == tensor->tally->named &&
            (tensor->tally->decided || arrived + named < negotiator->config.size);
}

static bool round_is_valid(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    if (tensor->round.since_ns == 0 ||
            (tensor->round.by_number &&
                    (!tensor->round.pending || tensor->number == 0))) {
        return false;
    }
    if (is_coordinator(negotiator)) {
        return collected_is_valid(negotiator, tensor);
    }
    return tensor->tally == NULL;
}

static bool active_is_valid(const struct negotiator *negotiator)
{
    size_t count = 0;
    int64_t previous = 0;

    for (const struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (!round_is_valid(negotiator, e) || e->round.since_ns < previous) {
            return false;
        }
        previous = e->round.since_ns;
        count++;
    }
    return count == negotiator->names.active.count;
}

static bool idle_is_valid(const struct negotiator *negotiator)
{
    size_t count = 0;

    for (const struct tensor_state *e = negotiator->names.idle.first; e != NULL;
            e = e->links.next) {
        if (e->round.since_ns != 0 || e->round.pending || e->number != 0 ||
                is_named(e)) {
            return false;
        }
        count++;
    }
    return count == negotiator->names.idle.count;
}

bool negotiator_is_valid(const struct negotiator *negotiator)
{
    size_t position = 0;
    size_t numbered = 0;
    const struct tensor_state *tensor;

    while ((tensor = map_next(&negotiator->names.by_name, &position)) != NULL) {
        numbered += tensor->number != 0 ? 1 : 0;
        if (tensor->number != 0 &&
                tensor_by_number(negotiator, tensor->number) != tensor) {
            return false;
        }
    }
    return active_is_valid(negotiator) && idle_is_valid(negotiator) &&
            bits_are_valid(negotiator) &&
            (!is_coordinator(negotiator) ||
                    numbered == negotiator->names.numbered.count);
}
