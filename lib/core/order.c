/*
 * Tickets.
 *
 *     ENVELOPE_ORDER   straight(u8), then until the end: flags and lane (u8), set id
 *                      (varint), the token where there is one
 *     ENVELOPE_ASK     until the end: lane (u8), set id (varint)
 */
#include "core/order.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "core/completion.h"
#include "core/context.h"
#include "core/engine.h"

/** World rank of the sequencer. */
#define SEQUENCER 0

enum {
    LANE_MASK = 15,
    FLAG_CREATION = 16,
    FLAG_TOKEN = 32
};

static_assert(OP_LANES <= LANE_MASK + 1, "a lane fits beside the flags");

/* ------------------------------------------------------------------ queues */

static bool queue_push(struct ticket_queue *queue, const struct ticket *ticket)
{
    if (queue->first > 0 && queue->first + queue->count == queue->capacity) {
        memmove(queue->items, queue->items + queue->first,
                queue->count * sizeof *queue->items);
        queue->first = 0;
    }
    if (!mem_grow(&queue->items, &queue->capacity, queue->first + queue->count + 1,
                sizeof *queue->items)) {
        return false;
    }
    queue->items[queue->first + queue->count++] = *ticket;
    return true;
}

static struct ticket *queue_at(const struct ticket_queue *queue, size_t index)
{
    return &queue->items[queue->first + index];
}

static void queue_pop(struct ticket_queue *queue)
{
    queue->count--;
    queue->first = queue->count == 0 ? 0 : queue->first + 1;
}

void order_fini(struct order *order)
{
    mem_free(order->next.items);
    mem_free(order->early.items);
    mem_free(order->asked.items);
    *order = (struct order){ 0 };
}

/* ---------------------------------------------------------------- backend */

static const struct dispatcher_backend *backend_of(const struct tutti *t)
{
    for (int b = 0; b < t->dispatcher.backend_count; b++) {
        if (t->dispatcher.backends[b].ops->meet != NULL) {
            return &t->dispatcher.backends[b];
        }
    }
    return NULL;
}

bool order_is_on(const struct tutti *t)
{
    return backend_of(t) != NULL;
}

static bool has_sequencer(const struct process_set *set)
{
    for (int m = 0; m < set->op.size; m++) {
        if (set->world_ranks[m] == SEQUENCER) {
            return true;
        }
    }
    return false;
}

/* The sequencer is asked as long as there is a set that it is no member of. */
static void set_duty(struct tutti *t)
{
    uint32_t on_duty = 0;

    for (size_t s = 0; s < t->sets.count && t->rank == SEQUENCER && on_duty == 0; s++) {
        on_duty = order_is_on(t) && !has_sequencer(t->sets.sets[s]);
    }
    atomic_store_explicit(&t->order.on_duty, on_duty, memory_order_relaxed);
}

void order_begin(struct tutti *t)
{
    t->order.is_direct = t->sets.count > 1;
    set_duty(t);
}

/* ------------------------------------------------------------------ writing */

static void append(struct order *order, struct ticket *ticket)
{
    ticket->by_tree = !order->is_direct;
    order->failed |= !queue_push(&order->next, ticket);
    order->is_direct |= ticket->is_creation;
}

/* Sequencer. A set's first ticket brings its ranks together. */
static void grant(struct tutti *t, struct process_set *set, struct ticket *ticket)
{
    const struct dispatcher_backend *backend = backend_of(t);
    const bool wants_token = ticket->is_creation ? t->order.has_world : !set->has_token;

    ticket->set = set->id;
    if (wants_token) {
        ticket->has_token = true;
        if (backend->ops->token(backend->state, ticket->token) != TUTTI_OK) {
            /* The ranks find no one under it, and say so. */
            memset(ticket->token, 0, sizeof ticket->token);
        }
        set->has_token = true;
        t->order.has_world |= set->id == TUTTI_WORLD;
    }
    append(&t->order, ticket);
}

/* The first member asks for all. */
static void ask(struct tutti *t, const struct process_set *set, uint32_t lane)
{
    struct ticket question = { .set = set->id, .lane = lane };

    t->order.failed |= !queue_push(&t->order.asked, &question);
}

void order_queued(struct tutti *t, const struct batch *batch)
{
    struct process_set *set = batch->set;

    if (batch->space != OP_DEVICE || !order_is_on(t)) {
        return;
    }
    if (t->rank == SEQUENCER) {
        struct ticket ticket = { .lane = batch->lane };

        grant(t, set, &ticket);
    } else if (set->op.rank == 0 && !has_sequencer(set)) {
        ask(t, set, batch->lane);
    }
}

bool order_created(struct tutti *t, struct process_set *set, struct work *creation)
{
    if (!order_is_on(t)) {
        return false;
    }
    work_advance(creation, WORK_AGREED);
    set->creation = creation;
    /* Every rank waits for it, so that what comes before it may be launched. */
    (void)atomic_fetch_add_explicit(&t->order.demands, 1, memory_order_acq_rel);
    set_duty(t);
    if (t->rank == SEQUENCER) {
        struct ticket ticket = { .is_creation = true };

        grant(t, set, &ticket);
    }
    return true;
}

/* ------------------------------------------------------------------ telling */

static void put_ticket(struct wire_writer *out, const struct ticket *ticket)
{
    wire_put_u8(out,
            (uint8_t)(ticket->lane | (ticket->is_creation ? FLAG_CREATION : 0u) |
                    (ticket->has_token ? FLAG_TOKEN : 0u)));
    wire_put_varint(out, ticket->set);
    if (ticket->has_token) {
        wire_put_bytes(out, ticket->token, sizeof ticket->token);
    }
}

static tutti_status send(struct tutti *t, int to)
{
    if (t->envelope.failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
    }
    counter_add(&t->counters.messages, 1);
    counter_add(&t->counters.message_bytes, t->envelope.len);
    return t->control.ops->send(
            t->control.state, to, t->envelope.data, t->envelope.len);
}

static void begin_message(struct tutti *t, bool is_direct)
{
    wire_writer_reset(&t->envelope);
    wire_put_u8(&t->envelope, ENVELOPE_ORDER);
    wire_put_u8(&t->envelope, is_direct ? 1 : 0);
}

static tutti_status tell_children(struct tutti *t)
{
    const int fanout = t->config.tree_fanout;
    tutti_status status = TUTTI_OK;

    for (int i = 1; i <= fanout && status == TUTTI_OK; i++) {
        const int64_t child = (int64_t)t->rank * fanout + i;

        if (child >= t->size) {
            break;
        }
        status = send(t, (int)child);
    }
    return status;
}

/* Sequencer: the members of the set, or everyone. */
static tutti_status tell_directly(struct tutti *t, const struct ticket *ticket)
{
    const struct process_set *set = process_sets_find(&t->sets, ticket->set);
    const int count = ticket->is_creation ? t->size : set->op.size;
    tutti_status status = TUTTI_OK;

    begin_message(t, true);
    put_ticket(&t->envelope, ticket);
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        const int to = ticket->is_creation ? i : set->world_ranks[i];

        if (to != SEQUENCER) {
            status = send(t, to);
        }
    }
    return status;
}

/* Those that go along the tree are told in one message: they come first. */
static tutti_status tell(struct tutti *t)
{
    struct order *order = &t->order;
    tutti_status status = TUTTI_OK;
    bool has_any = false;

    begin_message(t, false);
    while (order->told < order->next.count &&
            queue_at(&order->next, order->told)->by_tree) {
        put_ticket(&t->envelope, queue_at(&order->next, order->told++));
        has_any = true;
    }
    if (has_any) {
        status = tell_children(t);
    }
    while (order->told < order->next.count && status == TUTTI_OK) {
        const struct ticket *ticket = queue_at(&order->next, order->told++);

        if (t->rank == SEQUENCER) {
            status = tell_directly(t, ticket);
        }
    }
    return status;
}

static tutti_status send_question(struct tutti *t, const struct ticket *question)
{
    wire_writer_reset(&t->envelope);
    wire_put_u8(&t->envelope, ENVELOPE_ASK);
    wire_put_u8(&t->envelope, (uint8_t)question->lane);
    wire_put_varint(&t->envelope, question->set);
    return send(t, SEQUENCER);
}

/* TUTTI_AGAIN: of a set that is not here yet; its members are ahead in the world's log. */
static tutti_status grant_question(struct tutti *t, struct ticket *question)
{
    struct process_set *set = process_sets_find(&t->sets, question->set);

    if (set == NULL) {
        return TUTTI_AGAIN;
    }
    grant(t, set, question);
    return TUTTI_OK;
}

/* Hands questions to the sequencer; there, answers them. */
static tutti_status answer(struct tutti *t)
{
    struct ticket_queue *asked = &t->order.asked;
    tutti_status status = TUTTI_OK;

    while (asked->count > 0 && status == TUTTI_OK) {
        struct ticket question = *queue_at(asked, 0);

        status = t->rank == SEQUENCER ? grant_question(t, &question)
                                      : send_question(t, &question);
        if (status == TUTTI_OK) {
            queue_pop(asked);
        }
    }
    return status == TUTTI_AGAIN ? TUTTI_OK : status;
}

/* ---------------------------------------------------------------- receiving */

static bool get_ticket(struct wire_reader *in, struct ticket *ticket)
{
    const uint8_t flags = wire_get_u8(in);
    const uint64_t set = wire_get_varint(in);
    const uint8_t *token = NULL;

    *ticket = (struct ticket){ .set = (tutti_process_set)set,
        .lane = flags & LANE_MASK,
        .is_creation = (flags & FLAG_CREATION) != 0,
        .has_token = (flags & FLAG_TOKEN) != 0 };
    if (ticket->has_token) {
        token = wire_get_bytes(in, OP_TOKEN_BYTES);
    }
    if (!wire_ok(in) || set > UINT32_MAX || ticket->lane >= OP_LANES) {
        return false;
    }
    if (token != NULL) {
        memcpy(ticket->token, token, OP_TOKEN_BYTES);
    }
    return true;
}

static tutti_status malformed(int from)
{
    return error_set(TUTTI_ERR_PROTOCOL, "malformed tickets from rank %d", from);
}

static void take_early(struct order *order)
{
    while (order->is_direct && order->early.count > 0) {
        append(order, queue_at(&order->early, 0));
        queue_pop(&order->early);
    }
}

static tutti_status take_tickets(struct tutti *t, int from, struct wire_reader *in)
{
    struct order *order = &t->order;
    const bool is_direct = wire_get_u8(in) != 0;

    while (wire_left(in) > 0) {
        struct ticket ticket;

        if (!get_ticket(in, &ticket)) {
            return malformed(from);
        }
        if (is_direct && !order->is_direct) {
            order->failed |= !queue_push(&order->early, &ticket);
        } else {
            append(order, &ticket);
        }
    }
    take_early(order);
    return wire_ok(in) ? TUTTI_OK : malformed(from);
}

static tutti_status take_questions(struct tutti *t, int from, struct wire_reader *in)
{
    while (wire_left(in) > 0) {
        const uint8_t lane = wire_get_u8(in);
        const uint64_t set = wire_get_varint(in);
        struct ticket question = { .set = (tutti_process_set)set, .lane = lane };

        if (!wire_ok(in) || lane >= OP_LANES || set > UINT32_MAX) {
            return malformed(from);
        }
        t->order.failed |= !queue_push(&t->order.asked, &question);
    }
    return TUTTI_OK;
}

tutti_status order_receive(
        struct tutti *t, int from, bool is_question, const void *bytes, size_t len)
{
    struct wire_reader in;

    wire_reader_init(&in, bytes, len);
    if (!order_is_on(t) || is_question != (t->rank == SEQUENCER)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d sent a message about the launch order of device batches, "
                "which rank %d has no use for",
                from, t->rank);
    }
    return is_question ? take_questions(t, from, &in) : take_tickets(t, from, &in);
}

/* -------------------------------------------------------------------- using */

/* Device batches that were started and whose commands are not issued yet. */
static bool any_unissued(const struct tutti *t)
{
    for (const struct batch *b = t->dispatcher.running; b != NULL; b = b->next) {
        if (b->backend != NULL && b->backend->ops->meet != NULL) {
            return true;
        }
    }
    return false;
}

/*
 * With issue=caller nothing is launched that nobody waits for, but what comes before it; and
 * what is launched has to be issued before the next is, which may be one too many.
 */
static bool is_demanded(const struct tutti *t)
{
    return t->config.issue != CONFIG_ISSUE_CALLER ||
            (!any_unissued(t) &&
                    atomic_load_explicit(&t->order.demands, memory_order_acquire) > 0);
}

bool order_allows(const struct tutti *t, const struct batch *batch)
{
    const struct ticket *ticket;

    if (batch->space != OP_DEVICE || !order_is_on(t)) {
        return true;
    }
    if (t->order.next.count == 0 || t->order.meets) {
        return false;
    }
    ticket = queue_at(&t->order.next, 0);
    return !ticket->is_creation && !ticket->has_token &&
            ticket->set == batch->set->id && ticket->lane == batch->lane &&
            is_demanded(t);
}

void order_use(struct tutti *t)
{
    queue_pop(&t->order.next);
    t->order.told--;
    t->order.used++;
}

/* The ranks of the ticket's set come together; at a creation, and the world's, everyone. */
static tutti_status meet(struct tutti *t, const struct ticket *ticket,
        const struct process_set *set, bool *moved)
{
    const struct dispatcher_backend *backend = backend_of(t);
    /* A set that was removed before this rank, no member, came to know: it only helps. */
    const struct op_set other = { .id = ticket->set, .rank = -1 };

    return backend->ops->meet(backend->state, set != NULL ? &set->op : &other,
            ticket->token, ticket->is_creation, moved);
}

static void end_creation(struct tutti *t, struct process_set *set)
{
    struct work *work = set->creation;

    set->creation = NULL;
    (void)atomic_fetch_sub_explicit(&t->order.demands, 1, memory_order_acq_rel);
    *(tutti_process_set *)work->output = set->id;
    completion_finish_one(t, work, TUTTI_OK, NULL);
}

/* What the first ticket asks for but a batch. TUTTI_AGAIN: it has to wait. */
static tutti_status use_first(struct tutti *t, bool *moved)
{
    struct order *order = &t->order;
    struct ticket *ticket = queue_at(&order->next, 0);
    struct process_set *set = process_sets_find(&t->sets, ticket->set);

    if (ticket->set >= t->sets.next_id) {
        return TUTTI_AGAIN; /* the world's log will tell of it */
    }
    if (ticket->has_token) {
        tutti_status status;

        if (!order->meets && (any_unissued(t) || !is_demanded(t))) {
            return TUTTI_AGAIN;
        }
        order->meets = true;
        status = meet(t, ticket, set, moved);
        if (status != TUTTI_OK) {
            return status;
        }
        order->meets = false;
        ticket->has_token = false;
        *moved = true;
    }
    if (ticket->is_creation) {
        end_creation(t, set);
    } else if (set != NULL && set->op.rank >= 0) {
        return TUTTI_AGAIN; /* for a batch */
    }
    order_use(t);
    *moved = true;
    return TUTTI_OK;
}

tutti_status order_advance(struct tutti *t, bool *moved)
{
    struct order *order = &t->order;
    tutti_status status = answer(t);

    if (status == TUTTI_OK) {
        status = tell(t);
    }
    if (order->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the launch order");
    }
    while (status == TUTTI_OK && order->next.count > 0) {
        status = use_first(t, moved);
    }
    return status == TUTTI_AGAIN ? TUTTI_OK : status;
}

void order_removed(struct tutti *t, const struct process_set *set)
{
    const struct dispatcher_backend *backend = backend_of(t);

    if (backend != NULL) {
        backend->ops->part(backend->state, &set->op, t->sets.next_id);
        set_duty(t);
    }
}

bool order_is_on_duty(const struct tutti *t)
{
    return atomic_load_explicit(&t->order.on_duty, memory_order_relaxed) != 0;
}

/* Who waits takes its demand back itself; the engine is only earlier, mostly. */
void order_demand(struct tutti *t, struct work *work)
{
    if (work_is_on_device(work) && !work_is_issued(work) &&
            atomic_exchange_explicit(&work->demanded, 1, memory_order_acq_rel) == 0) {
        (void)atomic_fetch_add_explicit(&t->order.demands, 1, memory_order_acq_rel);
    }
}

void order_satisfied(struct tutti *t, struct work *work)
{
    if (work_is_on_device(work) &&
            atomic_exchange_explicit(&work->demanded, 0, memory_order_acq_rel) != 0) {
        (void)atomic_fetch_sub_explicit(&t->order.demands, 1, memory_order_acq_rel);
    }
}

void order_demand_all(struct tutti *t)
{
    (void)atomic_fetch_add_explicit(&t->order.demands, 1, memory_order_acq_rel);
}
