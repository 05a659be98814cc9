/*
 * Control messages: sending them, and who gets what comes; and what ranks of this node show on
 * the board.
 */
#include "run/messages.h"

#include <string.h>

#include "agree/negotiator.h"
#include "base/digest.h"
#include "base/mem.h"
#include "device/tickets.h"
#include "observe/observe.h"
#include "run/context.h"
#include "run/failure.h"
#include "run/pairs.h"
#include "run/process_set.h"
#include "run/submit.h"

/* A message for a set this rank has not created yet. */
struct early_message {
    struct early_message *next;
    tutti_process_set set;
    int from;
    size_t len;
    uint8_t bytes[];
};

struct wire_writer *messages_begin(struct tutti *t, enum message_kind kind)
{
    wire_writer_reset(&t->engine.messages.out);
    wire_put_u8(&t->engine.messages.out, (uint8_t)kind);
    return &t->engine.messages.out;
}

tutti_status messages_send(struct tutti *t, int to)
{
    struct wire_writer *out = &t->engine.messages.out;

    wire_put_u64(out, digest(out->data, out->len));
    if (out->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
    }
    observe_number(t, EVENT_MESSAGE_SENT, out->len);
    return t->peers.transport.ops->send(
            t->peers.transport.state, to, out->data, out->len);
}

void messages_wake(void *user, int rank)
{
    struct tutti *t = user;

    t->peers.transport.ops->wake(t->peers.transport.state, rank);
}

/* ------------------------------------------------------------------- the board */

static tutti_status read_child(struct tutti *t, struct process_set *set, int child)
{
    struct negotiator *negotiator = &set->negotiator;
    const size_t count = negotiator_words(negotiator);
    uint64_t words[BOARD_WORDS];
    tutti_status status = TUTTI_OK;

    if (!t->peers.board.shown(t->peers.board.state, &set->op,
                negotiator->tree.children[child], words, count)) {
        return TUTTI_OK;
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (words[i] != negotiator_seen(negotiator, child, i)) {
            set->dirty = true;
            status = negotiator_shown(negotiator, child, i, words[i]);
        }
    }
    return status;
}

static tutti_status read_parent(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    const int parent = negotiator->tree.parent;
    uint8_t bytes[BOARD_MESSAGE_BYTES];
    tutti_status status = TUTTI_OK;
    size_t len;

    while (status == TUTTI_OK &&
            (len = t->peers.board.read(t->peers.board.state, &set->op, parent,
                     negotiator->log.messages, bytes)) > 0) {
        set->dirty = true;
        status = negotiator_receive(negotiator, parent, bytes, len);
    }
    return status;
}

tutti_status messages_read_board(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    const struct tree *tree = &negotiator->tree;
    tutti_status status = TUTTI_OK;

    if (!negotiator->config.board) {
        return TUTTI_OK;
    }
    negotiator->now_ns = t->engine.now_ns;
    if (tree->parent_is_near) {
        status = read_parent(t, set);
    }
    for (int c = 0; c < tree->child_count && status == TUTTI_OK; c++) {
        if (tree->child_is_near[c]) {
            status = read_child(t, set, c);
        }
    }
    return status;
}

/* -------------------------------------------------------------- receiving */

static int member_of(const struct process_set *set, int world_rank)
{
    /* The usual case, and the only one in the world. */
    if (world_rank < set->op.size && set->world_ranks[world_rank] == world_rank) {
        return world_rank;
    }
    for (int i = 0; i < set->op.size; i++) {
        if (set->world_ranks[i] == world_rank) {
            return i;
        }
    }
    return -1;
}

static tutti_status receive(struct tutti *t, struct process_set *set, int from,
        const void *bytes, size_t len)
{
    const int member = member_of(set, from);
    tutti_status status;

    if (set->op.rank < 0 || member < 0) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d sent a message of process set %u, of which it or rank %d is "
                "no "
                "member",
                from, set->id, t->rank);
    }
    /* What it showed before it sent this. */
    status = messages_read_board(t, set);
    if (status != TUTTI_OK) {
        return status;
    }
    set->dirty = true;
    set->negotiator.now_ns = t->engine.now_ns;
    return negotiator_receive(&set->negotiator, member, bytes, len);
}

/* A peer may be ahead of us in the world's log and use a set we have yet to create. */
static tutti_status keep_early(
        struct tutti *t, tutti_process_set id, int from, const void *bytes, size_t len)
{
    struct early_message *message = mem_alloc(sizeof *message + len);
    struct early_message **last = &t->engine.messages.early;

    if (message == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an early message");
    }
    message->next = NULL;
    message->set = id;
    message->from = from;
    message->len = len;
    memcpy(message->bytes, bytes, len);
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = message;
    return TUTTI_OK;
}

tutti_status messages_replay(struct tutti *t)
{
    struct early_message **at = &t->engine.messages.early;
    tutti_status status = TUTTI_OK;

    while (*at != NULL && status == TUTTI_OK) {
        struct early_message *message = *at;
        struct process_set *set = process_sets_find(&t->sets, message->set);

        if (set == NULL) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        status = receive(t, set, message->from, message->bytes, message->len);
        mem_free(message);
    }
    return status;
}

/* There is nobody to wait for it. */
static void ignore(void *user, tutti_status status, const char *message)
{
    (void)user;
    (void)status;
    (void)message;
}

/* This rank has announced to the others that it finalizes before it knew of this one. */
static tutti_status finalize_pair(struct tutti *t, tutti_process_set id)
{
    struct submission submission = { .collective = META_FINALIZE,
        .name = "finalize",
        .set = id,
        .meta = { .prescale = 1, .postscale = 1 },
        .callback = ignore };
    tutti_request none;

    return submit_queue(t, &submission, &none);
}

/* The pair of a message from another rank; maybe it is the first that this one hears of it. */
static tutti_status find_pair(
        struct tutti *t, tutti_process_set id, int from, struct process_set **set)
{
    const tutti_process_set size = (tutti_process_set)t->size;
    const tutti_process_set number = id - PAIRS_FIRST_ID;
    const bool is_from =
            number == (tutti_process_set)from * size + (tutti_process_set)t->rank;
    tutti_status status;
    bool ends;

    if (from == t->rank ||
            (!is_from &&
                    number !=
                            (tutti_process_set)t->rank * size +
                                    (tutti_process_set)from)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d sent a message for a pair of ranks that rank %d is not of",
                from, t->rank);
    }
    pthread_mutex_lock(&t->lock);
    ends = pairs_find(t, id) == NULL && t->sets.pairs.are_ending;
    status = is_from ? pairs_get(t, from, t->rank, set)
                     : pairs_get(t, t->rank, from, set);
    pthread_mutex_unlock(&t->lock);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!(*set)->is_entered && !process_sets_enter(t, *set)) {
        return pairs_no_memory();
    }
    return ends ? finalize_pair(t, id) : TUTTI_OK;
}

/* The first one, without a message of the negotiator, says that the pair was made. */
static tutti_status route_to_pair(
        struct tutti *t, int from, tutti_process_set id, const void *bytes, size_t len)
{
    struct process_set *set = NULL;
    const tutti_status status = find_pair(t, id, from, &set);

    return status == TUTTI_OK && len > 0 ? receive(t, set, from, bytes, len) : status;
}

static tutti_status route(struct tutti *t, int from, struct wire_reader *in)
{
    const uint64_t id = wire_get_varint(in);
    const size_t len = wire_left(in);
    const uint8_t *bytes = wire_get_bytes(in, len);
    struct process_set *set;

    if (!wire_ok(in) || id > UINT32_MAX) {
        return error_set(TUTTI_ERR_PROTOCOL, "malformed message from rank %d", from);
    }
    if (id >= PAIRS_FIRST_ID) {
        return route_to_pair(t, from, (tutti_process_set)id, bytes, len);
    }
    set = process_sets_find(&t->sets, (tutti_process_set)id);
    if (set != NULL) {
        return receive(t, set, from, bytes, len);
    }
    if (id >= t->sets.next_id) {
        return keep_early(t, (tutti_process_set)id, from, bytes, len);
    }
    /* The set is gone: what it still says (a retired number) concerns nobody. */
    return TUTTI_OK;
}

/* A message without the digest behind it, if that is right. */
static tutti_status check_whole(int from, const void *bytes, size_t *len)
{
    struct wire_reader in;

    if (*len > sizeof(uint64_t)) {
        *len -= sizeof(uint64_t);
        wire_reader_init(&in, (const uint8_t *)bytes + *len, sizeof(uint64_t));
        if (wire_get_u64(&in) == digest(bytes, *len)) {
            return TUTTI_OK;
        }
    }
    return error_set(TUTTI_ERR_PROTOCOL,
            "a message from rank %d is not what that rank has sent: its checksum is "
            "wrong; "
            "suspect the memory of both ranks and the network between them",
            from);
}

static void deliver(void *user, int from, const void *bytes, size_t len)
{
    struct tutti *t = user;
    struct wire_reader in;
    uint8_t kind;

    if (t->engine.messages.delivery != TUTTI_OK ||
            atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) != 0) {
        return;
    }
    t->engine.messages.delivery = check_whole(from, bytes, &len);
    if (t->engine.messages.delivery != TUTTI_OK) {
        return;
    }
    wire_reader_init(&in, bytes, len);
    kind = wire_get_u8(&in);
    if (kind == MESSAGE_SET) {
        t->engine.messages.delivery = route(t, from, &in);
    } else if (kind == MESSAGE_ABORT) {
        failure_received(t, from, (const uint8_t *)bytes + 1, len - 1);
    } else if (kind == MESSAGE_ORDER || kind == MESSAGE_ASK) {
        t->engine.messages.delivery = tickets_receive(&t->engine.tickets, from,
                kind == MESSAGE_ASK, (const uint8_t *)bytes + 1, len - 1);
    } else {
        t->engine.messages.delivery = error_set(TUTTI_ERR_PROTOCOL,
                "message of unknown kind %u from rank %d", kind, from);
    }
}

tutti_status messages_poll(struct tutti *t, bool *moved)
{
    tutti_status status;

    t->engine.messages.delivery = TUTTI_OK;
    status = transport_poll(&t->peers.transport, deliver, t);
    if (status == TUTTI_AGAIN) {
        return TUTTI_OK;
    }
    *moved = true;
    return status == TUTTI_OK ? t->engine.messages.delivery : status;
}

void messages_fini(struct tutti *t)
{
    while (t->engine.messages.early != NULL) {
        struct early_message *next = t->engine.messages.early->next;

        mem_free(t->engine.messages.early);
        t->engine.messages.early = next;
    }
    wire_writer_fini(&t->engine.messages.out);
}
