/*
 * Launch order of device batches: between the tickets (lib/device) and the engine.
 */
#include "run/order.h"

#include <string.h>

#include "device/tickets.h"
#include "run/complete.h"
#include "run/context.h"
#include "run/messages.h"
#include "run/operation.h"
#include "run/process_set.h"

static const struct dispatcher_backend *backend_of(const struct tutti *t)
{
    for (int b = 0; b < t->dispatcher.backend_count; b++) {
        if (t->dispatcher.backends[b].ops->meet != NULL) {
            return &t->dispatcher.backends[b];
        }
    }
    return NULL;
}

/* ---------------------------------------------------------- what tickets ask for */

static const struct op_set *find(void *user, tutti_process_set id)
{
    const struct tutti *t = user;
    const struct process_set *set = process_sets_find(&t->sets, id);

    return set != NULL ? &set->op : NULL;
}

static bool is_idle(void *user)
{
    const struct tutti *t = user;

    for (const struct batch *b = t->dispatcher.running; b != NULL; b = b->next) {
        if (b->sizes.are_asked) {
            return false;
        }
        if (b->backend != NULL && b->backend->ops->meet != NULL) {
            return false;
        }
    }
    return true;
}

static void make_token(void *user, uint8_t token[OP_TOKEN_BYTES])
{
    const struct dispatcher_backend *backend = backend_of(user);

    if (backend->ops->token(backend->state, token) != TUTTI_OK) {
        /* The ranks find no one under it, and say so. */
        memset(token, 0, OP_TOKEN_BYTES);
    }
}

static tutti_status meet(void *user, const struct op_set *set,
        const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved)
{
    const struct dispatcher_backend *backend = backend_of(user);

    return backend->ops->meet(backend->state, set, token, everyone, moved);
}

static void end_creation(void *user, tutti_process_set id)
{
    struct tutti *t = user;
    struct process_set *set = process_sets_find(&t->sets, id);
    struct operation *operation = set->creation;

    set->creation = NULL;
    *(tutti_process_set *)operation->memory.output = id;
    complete_one(t, operation, TUTTI_OK, NULL);
}

static tutti_status send(
        void *user, int to, bool is_question, const void *bytes, size_t len)
{
    struct wire_writer *out =
            messages_begin(user, is_question ? MESSAGE_ASK : MESSAGE_ORDER);

    wire_put_bytes(out, bytes, len);
    return messages_send(user, to);
}

static const struct tickets_ops ops = { .find = find,
    .is_idle = is_idle,
    .token = make_token,
    .meet = meet,
    .created = end_creation,
    .send = send };

/* ------------------------------------------------------- what tickets are told */

void order_begin(struct tutti *t, bool has_met)
{
    tickets_init(&t->engine.tickets, backend_of(t) != NULL ? &ops : NULL, t, t->rank,
            t->size, t->config.tree_fanout);
    t->engine.tickets.brakes = t->config.issue == CONFIG_ISSUE_CALLER;
    for (size_t s = 0; s < t->sets.count; s++) {
        tickets_listed(&t->engine.tickets, &t->sets.sets[s]->op);
    }
    t->engine.tickets.has_token[TUTTI_WORLD] = has_met;
}

void order_queued(struct tutti *t, const struct batch *batch)
{
    tickets_queued(&t->engine.tickets, &batch->set->op, batch->operation_count > 0);
}

bool order_created(struct tutti *t, struct process_set *set, struct operation *creation)
{
    if (!tickets_are_used(&t->engine.tickets)) {
        return false;
    }
    operation_advance(creation, OPERATION_AGREED);
    set->creation = creation;
    tickets_created(&t->engine.tickets, &set->op);
    return true;
}

bool order_allows(const struct tutti *t, const struct batch *batch)
{
    return tickets_allow(&t->engine.tickets, &batch->set->op);
}

void order_use(struct tutti *t, const struct batch *batch)
{
    tickets_use(&t->engine.tickets, batch->operation_count > 0);
}

tutti_status order_advance(struct tutti *t, bool *moved)
{
    return tickets_advance(&t->engine.tickets, moved);
}

void order_removed(struct tutti *t, const struct process_set *set)
{
    if (tickets_are_used(&t->engine.tickets)) {
        const struct dispatcher_backend *backend = backend_of(t);

        backend->ops->part(backend->state, &set->op, t->sets.next_id);
        tickets_removed(&t->engine.tickets, &set->op);
    }
}

static bool has_failed(const struct tutti *t)
{
    return atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) != 0;
}

bool order_is_on_duty(const struct tutti *t)
{
    return tickets_are_awaited(&t->engine.tickets) && !has_failed(t);
}

bool order_is_owed(const struct tutti *t)
{
    return tickets_are_owed(&t->engine.tickets) && !has_failed(t);
}
