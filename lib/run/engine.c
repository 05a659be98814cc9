/*
 * One step of progress: intake, messages, agreement, plans, dispatch.
 */
#include "run/engine.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/complete.h"
#include "run/complete_device.h"
#include "run/context.h"
#include "run/failure.h"
#include "run/failure_cleanup.h"
#include "run/order.h"
#include "run/outcomes.h"

/* A rank that found nothing to do for so long looks whether the others still live. */
#define WATCH_NS 50000000
/* A rank whose application asked so lately whether something is done waits for it. */
#define POKED_NS 10000000

/* ----------------------------------------------------------------- intake */

static struct operation *queue_take_all(struct tutti *t, bool *cancels)
{
    struct operation *operations = intake_take(&t->intake);

    /*
     * Acquire: pairs with tutti_cancel(). An operation that is asked for later than the queue was
     * taken is in the queue of a later pass, or asked for again in one.
     */
    *cancels = atomic_load_explicit(&t->engine.cancels_pending, memory_order_relaxed) !=
                    0 &&
            atomic_exchange_explicit(
                    &t->engine.cancels_pending, 0, memory_order_acquire) != 0;
    return operations;
}

/*
 * A member of a group that was cancelled before is announced all the same, with its
 * cancellation: the others of the group must fail with it, on all ranks.
 */
static tutti_status announce(struct tutti *t, struct operation *operation)
{
    struct negotiator *negotiator = &operation->set->negotiator;
    const bool cancelled = operation_take_cancel(operation);
    tutti_status status;

    operation_advance(operation, OPERATION_ANNOUNCED);
    if (cancelled && operation->request.meta.group == 0) {
        complete_failed(
                t, operation, TUTTI_ERR_CANCELLED, "cancelled before it was announced");
        return TUTTI_OK;
    }
    if (operation->set->finalized && operation->request.collective != META_FINALIZE) {
        complete_failed(
                t, operation, TUTTI_ERR_FINALIZED, "the process set is finalized");
        return TUTTI_OK;
    }
    operation->set->dirty = true;
    negotiator->now_ns = t->engine.now_ns;
    status = negotiator_submit(negotiator, &operation->request);
    return status == TUTTI_OK && cancelled
            ? negotiator_cancel(negotiator, &operation->request)
            : status;
}

/* Cancellations of operations that are with the negotiator. */
static tutti_status announce_cancels(struct tutti *t)
{
    tutti_status status = TUTTI_OK;
    uint32_t position = 0;
    struct operation *operation;

    pthread_mutex_lock(&t->lock);
    while (status == TUTTI_OK &&
            (operation = operation_next(&t->operations, &position)) != NULL) {
        if (operation_state(operation) != OPERATION_ANNOUNCED ||
                !operation_take_cancel(operation)) {
            continue;
        }
        operation->set->dirty = true;
        status = negotiator_cancel(&operation->set->negotiator, &operation->request);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

static tutti_status take_in(struct tutti *t, bool *moved)
{
    bool cancels = false;
    struct operation *operations = queue_take_all(t, &cancels);
    struct operation *next;
    tutti_status status = TUTTI_OK;

    *moved = *moved || operations != NULL;
    for (struct operation *operation = operations; operation != NULL;
            operation = next) {
        next = operation->next;
        if (status == TUTTI_OK) {
            status = announce(t, operation);
        } else {
            /* The context is failing; the drain takes it from here. */
            operation_advance(operation, OPERATION_ANNOUNCED);
        }
    }
    return status == TUTTI_OK && cancels ? announce_cancels(t) : status;
}

/* --------------------------------------------------------------- messages */

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

    if (set->op.rank < 0 || member < 0) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d sent a message of process set %u, of which it or rank %d is "
                "no "
                "member",
                from, set->id, t->rank);
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
    struct early_message **last = &t->engine.early;

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

static tutti_status replay_early(struct tutti *t)
{
    struct early_message **at = &t->engine.early;
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

static tutti_status route(struct tutti *t, int from, struct wire_reader *in)
{
    const uint64_t id = wire_get_varint(in);
    const size_t len = wire_left(in);
    const uint8_t *bytes = wire_get_bytes(in, len);
    struct process_set *set;

    if (!wire_ok(in) || id > UINT32_MAX) {
        return error_set(TUTTI_ERR_PROTOCOL, "malformed message from rank %d", from);
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

static void deliver(void *user, int from, const void *bytes, size_t len)
{
    struct tutti *t = user;
    struct wire_reader in;
    uint8_t kind;

    if (t->engine.delivery != TUTTI_OK ||
            atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) != 0) {
        return;
    }
    wire_reader_init(&in, bytes, len);
    kind = wire_get_u8(&in);
    if (kind == ENVELOPE_SET) {
        t->engine.delivery = route(t, from, &in);
    } else if (kind == ENVELOPE_ABORT) {
        failure_received(t, from, (const uint8_t *)bytes + 1, len - 1);
    } else if (kind == ENVELOPE_ORDER || kind == ENVELOPE_ASK) {
        t->engine.delivery = tickets_receive(&t->tickets, from, kind == ENVELOPE_ASK,
                (const uint8_t *)bytes + 1, len - 1);
    } else {
        t->engine.delivery = error_set(TUTTI_ERR_PROTOCOL,
                "message of unknown kind %u from rank %d", kind, from);
    }
}

static tutti_status poll_messages(struct tutti *t, bool *moved)
{
    tutti_status status;

    t->engine.delivery = TUTTI_OK;
    status = transport_poll(&t->transport, deliver, t);
    if (status == TUTTI_AGAIN) {
        return TUTTI_OK;
    }
    *moved = true;
    return status == TUTTI_OK ? t->engine.delivery : status;
}

/* ------------------------------------------------------------ negotiation */

static tutti_status send_action(
        struct tutti *t, struct process_set *set, const struct action *action)
{
    struct wire_writer *envelope = &t->envelope;

    wire_writer_reset(envelope);
    wire_put_u8(envelope, ENVELOPE_SET);
    wire_put_varint(envelope, set->id);
    wire_put_bytes(
            envelope, set->negotiator.outbox.arena.data + action->offset, action->len);
    if (envelope->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
    }
    counter_add(&t->counters.messages, 1);
    counter_add(&t->counters.message_bytes, envelope->len);
    return t->transport.ops->send(t->transport.state, set->world_ranks[action->to],
            envelope->data, envelope->len);
}

static tutti_status run_actions(struct tutti *t, struct process_set *set)
{
    const struct negotiator *negotiator = &set->negotiator;
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < negotiator->outbox.action_count && status == TUTTI_OK; i++) {
        const struct action *action = &negotiator->outbox.actions[i];

        switch (action->kind) {
        case ACTION_SEND:
            status = send_action(t, set, action);
            break;
        case ACTION_STALL:
            counter_add(&t->counters.stalls, 1);
            failure_suspect(t);
            log_warn(&t->log, "%.*s%s%s", (int)action->len,
                    (const char *)negotiator->outbox.arena.data + action->offset,
                    t->failure.suspicion[0] == '\0' ? "" : "; ", t->failure.suspicion);
            break;
        case ACTION_NOTE:
            log_info(&t->log, "process set %u: %.*s", set->id, (int)action->len,
                    (const char *)negotiator->outbox.arena.data + action->offset);
            break;
        case ACTION_ARRIVAL:
            t->arrival_flags.write(t->arrival_flags.state, &set->op, action->cell,
                    action->word, action->detail);
            set->arrived = true;
            break;
        }
    }
    return status;
}

static void count_plans(struct tutti *t, struct negotiator *negotiator)
{
    counter_add(&t->counters.planned, negotiator->stats.planned);
    counter_add(&t->counters.planned_steps, negotiator->stats.planned_steps);
    counter_add(&t->counters.slow_steps, negotiator->stats.slow_steps);
    counter_add(&t->counters.plan_exits, negotiator->stats.plan_exits);
    negotiator->stats.planned = 0;
    negotiator->stats.planned_steps = 0;
    negotiator->stats.slow_steps = 0;
    negotiator->stats.plan_exits = 0;
}

static void count_announcements(struct tutti *t, struct negotiator *negotiator)
{
    counter_add(&t->counters.by_number, negotiator->stats.by_number);
    counter_add(&t->counters.by_name, negotiator->stats.by_name);
    negotiator->stats.by_number = 0;
    negotiator->stats.by_name = 0;
}

/* Those who wait for arrivals of this rank see that they have changed. */
static void wake_members(struct tutti *t, const struct process_set *set)
{
    for (int m = 0; m < set->op.size && t->transport.ops->wakes; m++) {
        if (m != set->op.rank) {
            t->transport.ops->wake(t->transport.state, set->world_ranks[m]);
        }
    }
}

static tutti_status settle_set(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    tutti_status status;

    set->dirty = false;
    status = negotiator_flush(negotiator);
    if (status == TUTTI_OK) {
        status = run_actions(t, set);
    }
    count_announcements(t, negotiator);
    count_plans(t, negotiator);
    if (status == TUTTI_OK && negotiator->outbox.outcome_count > 0) {
        status = outcomes_take(t, set);
    }
    negotiator_clear(negotiator);
    if (set->arrived) {
        set->arrived = false;
        wake_members(t, set);
    }
    return status;
}

/*
 * Settling the world may create or remove sets, and early messages may make new ones
 * dirty: look again until nothing is.
 */
static tutti_status settle(struct tutti *t)
{
    tutti_status status = TUTTI_OK;
    size_t s = 0;

    while (s < t->sets.count && status == TUTTI_OK) {
        const size_t count = t->sets.count;

        if (!t->sets.sets[s]->dirty) {
            s++;
            continue;
        }
        status = settle_set(t, t->sets.sets[s]);
        if (t->engine.early != NULL && status == TUTTI_OK) {
            status = replay_early(t);
        }
        s = t->sets.count == count ? s : 0;
    }
    return status;
}

/* ------------------------------------------------------------------- plans */

/* Reads what members show of a plan whose next batch they may have arrived at. */
static tutti_status read_arrivals(
        struct tutti *t, struct process_set *set, const struct plan *plan)
{
    const uint32_t lane = plan->lane;
    const uint64_t epoch = plan->epoch;
    const uint64_t decided = plan->decided;
    tutti_status status = TUTTI_OK;

    for (int m = 0; m < set->op.size && status == TUTTI_OK; m++) {
        uint64_t detail = 0;
        uint64_t word;

        if (m == set->op.rank || !plan_awaits(plan, m)) {
            continue;
        }
        word = t->arrival_flags.read(t->arrival_flags.state, &set->op, m,
                arrival_cell(lane, epoch), &detail);
        if (word != plan->arrivals[m].word) {
            set->dirty = true;
            status = negotiator_arrival(&set->negotiator, lane, m, word, detail);
        }
        plan = set->negotiator.plans.lanes[lane].current;
        if (plan == NULL || plan->epoch != epoch || plan->decided != decided) {
            break; /* it moved on: there will be another look */
        }
    }
    return status;
}

static tutti_status look_at_flags(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    tutti_status status = TUTTI_OK;

    if (!negotiator->config.arrival_flags || negotiator->names.active.first == NULL) {
        return TUTTI_OK; /* arrivals are messages, or this rank waits for nobody */
    }
    negotiator->now_ns = t->engine.now_ns;
    for (int l = 1; l < OP_LANES && status == TUTTI_OK; l++) {
        const struct plan *plan = negotiator->plans.lanes[l].current;

        if (plan != NULL && plan->state == PLAN_ON) {
            status = read_arrivals(t, set, plan);
        }
    }
    return status;
}

/* True when a thread of this rank waits for something, or asked not long ago. */
static bool is_waited(const struct tutti *t)
{
    return atomic_load_explicit(&t->driver.waiters, memory_order_relaxed) > 0 ||
            t->engine.now_ns - t->driver.poked_ns < POKED_NS;
}

static bool has_plans(const struct process_set *set)
{
    return set->op.rank >= 0 && set->negotiator.plans.on > 0;
}

static tutti_status follow_plans_of(struct tutti *t, struct process_set *set)
{
    tutti_status status = TUTTI_OK;

    do {
        status = look_at_flags(t, set);
        if (status != TUTTI_OK || !set->dirty) {
            break;
        }
        status = settle_set(t, set);
    } while (status == TUTTI_OK);
    return status;
}

/*
 * Plans go on as others arrive; what they committed is taken and what they contribute is
 * shown in settle(), after which there may be more. Their timers are for tick().
 */
static tutti_status follow_plans(struct tutti *t)
{
    tutti_status status = TUTTI_OK;

    for (size_t s = 0; s < t->sets.count && status == TUTTI_OK; s++) {
        struct process_set *set = t->sets.sets[s];
        int64_t due;

        if (!has_plans(set)) {
            continue;
        }
        set->negotiator.waited = is_waited(t);
        status = follow_plans_of(t, set);
        due = negotiator_next_tick(&set->negotiator);
        t->engine.next_tick_ns =
                due < t->engine.next_tick_ns ? due : t->engine.next_tick_ns;
    }
    return status;
}

static tutti_status tick(struct tutti *t)
{
    tutti_status status = TUTTI_OK;
    int64_t next = INT64_MAX;

    if (t->engine.now_ns < t->engine.next_tick_ns) {
        return TUTTI_OK;
    }
    for (size_t s = 0; s < t->sets.count && status == TUTTI_OK; s++) {
        struct process_set *set = t->sets.sets[s];
        int64_t due;

        if (set->op.rank < 0) {
            continue;
        }
        set->negotiator.now_ns = t->engine.now_ns;
        if (t->engine.now_ns >= negotiator_next_tick(&set->negotiator)) {
            set->dirty = true;
            status = negotiator_tick(&set->negotiator);
        }
        if (status == TUTTI_ERR_TIMEOUT) {
            failure_note_stall(t, set);
        }
        due = negotiator_next_tick(&set->negotiator);
        next = due < next ? due : next;
    }
    /* A round that begins meanwhile is due later than this. */
    t->engine.next_tick_ns = next < t->engine.now_ns + t->engine.tick_limit_ns
            ? next
            : t->engine.now_ns + t->engine.tick_limit_ns;
    return status;
}

static tutti_status watch(struct tutti *t, bool moved)
{
    if (!moved && t->engine.now_ns < t->engine.next_watch_ns) {
        return TUTTI_OK;
    }
    t->engine.next_watch_ns = t->engine.now_ns + WATCH_NS;
    failure_suspect(t);
    return moved ? TUTTI_OK : dispatch_watch(&t->dispatcher);
}

void engine_progress(struct tutti *t, bool *moved)
{
    tutti_status status;

    t->engine.now_ns = clock_ns();
    failure_look(t);
    status = take_in(t, moved);
    if (status == TUTTI_OK) {
        status = poll_messages(t, moved);
    }
    if (status == TUTTI_OK &&
            atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) == 0) {
        status = tick(t);
        if (status == TUTTI_OK) {
            status = settle(t);
        }
        if (status == TUTTI_OK) {
            status = follow_plans(t);
        }
        if (status == TUTTI_OK) {
            status = dispatch_run(t, moved);
        }
        if (status == TUTTI_OK) {
            status = complete_look(t, moved);
        }
        if (status == TUTTI_OK) {
            status = watch(t, *moved);
        }
    }
    if (status != TUTTI_OK) {
        failure_set_last(t, status);
    }
    failure_enforce(t);
}

bool engine_must_poll(const struct tutti *t)
{
    return t->device.state != NULL &&
            (complete_is_pending(&t->inflight) || t->dispatcher.running != NULL ||
                    t->tickets.meets);
}

bool engine_is_flushed(const struct tutti *t)
{
    return t->transport.ops->flushed(t->transport.state);
}
