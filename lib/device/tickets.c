/*
 * Tickets.
 */
#include "device/tickets.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum {
    FLAG_CREATION = 1,
    FLAG_TOKEN = 2,
    DUTY_ASKED = 1, /* others may ask                                     */
    DUTY_OWED = 2 /* something was queued, and not launched              */
};

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

void tickets_init(struct tickets *tickets, const struct tickets_ops *ops, void *user,
        int rank, int size, int fanout)
{
    *tickets = (struct tickets){
        .ops = ops, .user = user, .rank = rank, .size = size, .fanout = fanout
    };
}

void tickets_fini(struct tickets *tickets)
{
    mem_free(tickets->next.items);
    mem_free(tickets->early.items);
    mem_free(tickets->asked.items);
    wire_writer_fini(&tickets->message);
    *tickets = (struct tickets){ 0 };
}

/* -------------------------------------------------------------------- sets */

static bool has_sequencer(const struct op_set *set)
{
    for (int m = 0; m < set->size; m++) {
        if (set->world_ranks[m] == TICKETS_SEQUENCER) {
            return true;
        }
    }
    return false;
}

/*
 * The sequencer is asked as long as there is a set that it is no member of. A rank that has
 * joined has nothing in flight for its batches, but along the tree others wait for it.
 */
static void set_duty(struct tickets *tickets)
{
    const bool is_asked = tickets->foreign > 0;
    const bool is_owed = tickets->owed > 0;

    atomic_store_explicit(&tickets->on_duty,
            (is_asked ? DUTY_ASKED : 0) | (is_owed ? DUTY_OWED : 0),
            memory_order_relaxed);
}

static void count_foreign(
        struct tickets *tickets, const struct op_set *set, uint32_t by)
{
    if (tickets->rank == TICKETS_SEQUENCER && !has_sequencer(set)) {
        tickets->foreign += by;
        set_duty(tickets);
    }
}

void tickets_listed(struct tickets *tickets, const struct op_set *set)
{
    tickets->known = set->id + 1;
    tickets->is_direct |= set->id != TUTTI_WORLD;
    count_foreign(tickets, set, 1);
}

void tickets_removed(struct tickets *tickets, const struct op_set *set)
{
    tickets->has_token[set->index] = false;
    count_foreign(tickets, set, UINT32_MAX);
}

/* ------------------------------------------------------------------ writing */

static void append(struct tickets *tickets, struct ticket *ticket)
{
    ticket->by_tree = !tickets->is_direct;
    tickets->failed |= !queue_push(&tickets->next, ticket);
    tickets->is_direct |= ticket->is_creation;
}

/* Sequencer. A set's first ticket brings its ranks together, or all of the world. */
static void grant(
        struct tickets *tickets, const struct op_set *set, struct ticket *ticket)
{
    ticket->set = set->id;
    ticket->has_token = ticket->is_creation ? tickets->has_token[TUTTI_WORLD]
                                            : !tickets->has_token[set->index];
    if (ticket->has_token) {
        tickets->ops->token(tickets->user, ticket->token);
        tickets->has_token[set->index] = true;
    }
    append(tickets, ticket);
}

/* The first member asks for all. */
static void ask(struct tickets *tickets, const struct op_set *set)
{
    struct ticket question = { .set = set->id };

    tickets->failed |= !queue_push(&tickets->asked, &question);
}

void tickets_queued(struct tickets *tickets, const struct op_set *set, bool has_part)
{
    tickets->owed++;
    set_duty(tickets);
    if (!has_part) {
        tickets_demand(tickets);
    }
    if (tickets->rank == TICKETS_SEQUENCER) {
        struct ticket ticket = { .is_owed = true };

        grant(tickets, set, &ticket);
    } else if (set->rank == 0 && !has_sequencer(set)) {
        ask(tickets, set);
    }
}

void tickets_created(struct tickets *tickets, const struct op_set *set)
{
    tickets->known = set->id + 1;
    count_foreign(tickets, set, 1);
    /* Every rank waits for it, so that what comes before it may be launched. */
    tickets_demand(tickets);
    if (tickets->rank == TICKETS_SEQUENCER) {
        struct ticket ticket = { .is_creation = true };

        grant(tickets, set, &ticket);
    }
}

/* ------------------------------------------------------------------ telling */

static void put_ticket(struct wire_writer *out, const struct ticket *ticket)
{
    wire_put_u8(out,
            (uint8_t)((ticket->is_creation ? FLAG_CREATION : 0u) |
                    (ticket->has_token ? FLAG_TOKEN : 0u)));
    wire_put_varint(out, ticket->set);
    if (ticket->has_token) {
        wire_put_bytes(out, ticket->token, sizeof ticket->token);
    }
}

static tutti_status send(const struct tickets *tickets, int to, bool is_question)
{
    if (tickets->message.failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
    }
    return tickets->ops->send(tickets->user, to, is_question, tickets->message.data,
            tickets->message.len);
}

static void begin_orders(struct tickets *tickets, bool is_direct)
{
    wire_writer_reset(&tickets->message);
    wire_put_u8(&tickets->message, is_direct ? 1 : 0);
}

static tutti_status tell_children(const struct tickets *tickets)
{
    tutti_status status = TUTTI_OK;

    for (int i = 1; i <= tickets->fanout && status == TUTTI_OK; i++) {
        const int64_t child = (int64_t)tickets->rank * tickets->fanout + i;

        if (child >= tickets->size) {
            break;
        }
        status = send(tickets, (int)child, false);
    }
    return status;
}

/* Sequencer: the members of the set, or everyone. */
static tutti_status tell_directly(struct tickets *tickets, const struct ticket *ticket)
{
    const struct op_set *set = tickets->ops->find(tickets->user, ticket->set);
    const int count = ticket->is_creation ? tickets->size : set->size;
    tutti_status status = TUTTI_OK;

    begin_orders(tickets, true);
    put_ticket(&tickets->message, ticket);
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        const int to = ticket->is_creation ? i : set->world_ranks[i];

        if (to != TICKETS_SEQUENCER) {
            status = send(tickets, to, false);
        }
    }
    return status;
}

/* Those that go along the tree are told in one message: they come first. */
static tutti_status tell(struct tickets *tickets)
{
    tutti_status status = TUTTI_OK;
    bool has_any = false;

    begin_orders(tickets, false);
    while (tickets->told < tickets->next.count &&
            queue_at(&tickets->next, tickets->told)->by_tree) {
        put_ticket(&tickets->message, queue_at(&tickets->next, tickets->told++));
        has_any = true;
    }
    if (has_any) {
        status = tell_children(tickets);
    }
    while (tickets->told < tickets->next.count && status == TUTTI_OK) {
        const struct ticket *ticket = queue_at(&tickets->next, tickets->told++);

        if (tickets->rank == TICKETS_SEQUENCER) {
            status = tell_directly(tickets, ticket);
        }
    }
    return status;
}

static tutti_status send_question(
        struct tickets *tickets, const struct ticket *question)
{
    wire_writer_reset(&tickets->message);
    wire_put_varint(&tickets->message, question->set);
    return send(tickets, TICKETS_SEQUENCER, true);
}

static tutti_status send_questions(struct tickets *tickets)
{
    tutti_status status = TUTTI_OK;

    while (tickets->asked.count > 0 && status == TUTTI_OK) {
        status = send_question(tickets, queue_at(&tickets->asked, 0));
        if (status == TUTTI_OK) {
            queue_pop(&tickets->asked);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- receiving */

static bool get_ticket(struct wire_reader *in, struct ticket *ticket)
{
    const uint8_t flags = wire_get_u8(in);
    const uint64_t set = wire_get_varint(in);
    const uint8_t *token = NULL;

    *ticket = (struct ticket){ .set = (tutti_process_set)set,
        .is_creation = (flags & FLAG_CREATION) != 0,
        .has_token = (flags & FLAG_TOKEN) != 0,
        .is_owed = (flags & FLAG_CREATION) == 0 };
    if (ticket->has_token) {
        token = wire_get_bytes(in, OP_TOKEN_BYTES);
    }
    if (!wire_ok(in) || set > UINT32_MAX || flags > (FLAG_CREATION | FLAG_TOKEN)) {
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

static void take_early(struct tickets *tickets)
{
    while (tickets->is_direct && tickets->early.count > 0) {
        append(tickets, queue_at(&tickets->early, 0));
        queue_pop(&tickets->early);
    }
}

static tutti_status take_orders(
        struct tickets *tickets, int from, struct wire_reader *in)
{
    const bool is_direct = wire_get_u8(in) != 0;

    while (wire_left(in) > 0) {
        struct ticket ticket;

        if (!get_ticket(in, &ticket)) {
            return malformed(from);
        }
        if (is_direct && !tickets->is_direct) {
            tickets->failed |= !queue_push(&tickets->early, &ticket);
        } else {
            append(tickets, &ticket);
        }
    }
    take_early(tickets);
    return wire_ok(in) ? TUTTI_OK : malformed(from);
}

/*
 * Sequencer. The set is here: a creation is over when the sequencer's ticket has been used. And
 * still is: it is removed when its batches are over.
 */
static tutti_status take_questions(
        struct tickets *tickets, int from, struct wire_reader *in)
{
    while (wire_left(in) > 0) {
        const uint64_t id = wire_get_varint(in);
        const struct op_set *set = id <= UINT32_MAX
                ? tickets->ops->find(tickets->user, (uint32_t)id)
                : NULL;
        struct ticket ticket = { .set = 0 };

        if (!wire_ok(in) || set == NULL) {
            return malformed(from);
        }
        grant(tickets, set, &ticket);
    }
    return TUTTI_OK;
}

tutti_status tickets_receive(struct tickets *tickets, int from, bool is_question,
        const void *bytes, size_t len)
{
    struct wire_reader in;

    wire_reader_init(&in, bytes, len);
    if (tickets->ops == NULL || is_question != (tickets->rank == TICKETS_SEQUENCER)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d sent a message about the launch order of device batches, "
                "which rank %d has no use for",
                from, tickets->rank);
    }
    return is_question ? take_questions(tickets, from, &in)
                       : take_orders(tickets, from, &in);
}

/* -------------------------------------------------------------------- using */

/* With brakes, what is launched is issued before the next is, which may be one too many. */
static bool is_demanded(const struct tickets *tickets)
{
    if (!tickets->brakes) {
        return true;
    }
    return tickets->ops->is_idle(tickets->user) &&
            atomic_load_explicit(&tickets->demands, memory_order_acquire) > 0;
}

bool tickets_allow(const struct tickets *tickets, const struct op_set *set)
{
    const struct ticket *ticket;

    if (tickets->told == 0 || tickets->meets) {
        return false;
    }
    ticket = queue_at(&tickets->next, 0);
    return !ticket->is_creation && !ticket->has_token && ticket->set == set->id &&
            is_demanded(tickets);
}

static void use(struct tickets *tickets)
{
    tickets->owed -= queue_at(&tickets->next, 0)->is_owed ? 1 : 0;
    set_duty(tickets);
    queue_pop(&tickets->next);
    tickets->told--;
    tickets->used++;
}

void tickets_use(struct tickets *tickets, bool has_part)
{
    use(tickets);
    if (!has_part) {
        tickets_satisfy(tickets);
    }
}

/* The ranks of the ticket's set come together; at a creation, everyone. */
static tutti_status meet(struct tickets *tickets, struct ticket *ticket,
        const struct op_set *set, bool *moved)
{
    const bool is_idle = tickets->ops->is_idle(tickets->user);
    tutti_status status;

    if (!tickets->meets && (!is_idle || !is_demanded(tickets))) {
        return TUTTI_AGAIN;
    }
    tickets->meets = true;
    status = tickets->ops->meet(
            tickets->user, set, ticket->token, ticket->is_creation, moved);
    if (status == TUTTI_OK) {
        tickets->meets = false;
        ticket->has_token = false;
        *moved = true;
    }
    return status;
}

/* What the first ticket asks for but a batch. TUTTI_AGAIN: it has to wait. */
static tutti_status use_first(struct tickets *tickets, bool *moved)
{
    struct ticket *ticket = queue_at(&tickets->next, 0);
    const struct op_set *set = tickets->ops->find(tickets->user, ticket->set);
    const bool is_mine = set != NULL && set->rank >= 0;
    tutti_status status = TUTTI_OK;

    if (ticket->set >= tickets->known) {
        return TUTTI_AGAIN; /* the world's log will tell of it */
    }
    if (ticket->has_token && (is_mine || ticket->is_creation)) {
        status = meet(tickets, ticket, set, moved);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (ticket->is_creation) {
        tickets_satisfy(tickets);
        tickets->ops->created(tickets->user, ticket->set);
    } else if (is_mine) {
        return TUTTI_AGAIN; /* for a batch */
    } else if (
            ticket->is_owed) { /* the set was removed, so this rank had no part in it */
        tickets_satisfy(tickets);
    }
    use(tickets);
    *moved = true;
    return TUTTI_OK;
}

tutti_status tickets_advance(struct tickets *tickets, bool *moved)
{
    tutti_status status = send_questions(tickets);

    if (status == TUTTI_OK) {
        status = tell(tickets);
    }
    if (tickets->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the launch order");
    }
    while (status == TUTTI_OK && tickets->next.count > 0) {
        status = use_first(tickets, moved);
    }
    return status == TUTTI_AGAIN ? TUTTI_OK : status;
}

bool tickets_are_awaited(const struct tickets *tickets)
{
    return atomic_load_explicit(&tickets->on_duty, memory_order_relaxed) != 0;
}

bool tickets_are_owed(const struct tickets *tickets)
{
    return (atomic_load_explicit(&tickets->on_duty, memory_order_relaxed) &
                   DUTY_OWED) != 0;
}

void tickets_demand(struct tickets *tickets)
{
    (void)atomic_fetch_add_explicit(&tickets->demands, 1, memory_order_acq_rel);
}

void tickets_satisfy(struct tickets *tickets)
{
    (void)atomic_fetch_sub_explicit(&tickets->demands, 1, memory_order_acq_rel);
}
