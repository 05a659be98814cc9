/*
 * One step of progress: what comes in is agreed on, and what is agreed on goes to the next steps.
 */
#include "run/engine.h"

#include <stdio.h>

#include "agree/negotiator.h"
#include "agree/outbox.h"
#include "agree/plan.h"
#include "base/clock.h"
#include "observe/observe.h"
#include "run/complete.h"
#include "run/complete_device.h"
#include "run/context.h"
#include "run/dispatch.h"
#include "run/failure.h"
#include "run/messages.h"
#include "run/outcomes.h"
#include "run/standstill.h"

/* A rank that found nothing to do for so long looks whether the others still live. */
#define WATCH_NS 50000000
/* A rank whose application asked so lately whether something is done waits for it. */
#define POKED_NS 10000000

/* ----------------------------------------------------------------- taking in */

/*
 * Looked at after the intake was taken: an operation whose cancellation comes later is in the
 * intake of a later pass, or this is true again in one.
 */
static bool take_cancels(struct tutti *t)
{
    /* Acquire: pairs with tutti_cancel(). */
    return atomic_load_explicit(&t->engine.cancels_pending, memory_order_relaxed) !=
            0 &&
            atomic_exchange_explicit(
                    &t->engine.cancels_pending, 0, memory_order_acquire) != 0;
}

/*
 * A member of a group that was cancelled before is announced, too, with its
 * cancellation: the others of the group must fail with it, on all ranks.
 */
static tutti_status announce(struct tutti *t, struct operation *operation)
{
    struct negotiator *negotiator = &operation->set->negotiator;
    const bool cancelled = operation_take_cancel(operation);
    tutti_status status;

    operation->taken_ns = t->engine.now_ns;
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

    while (status == TUTTI_OK &&
            (operation = operation_next(&t->work.operations, &position)) != NULL) {
        if (operation_state(operation) != OPERATION_ANNOUNCED ||
                !operation_take_cancel(operation)) {
            continue;
        }
        operation->set->dirty = true;
        status = negotiator_cancel(&operation->set->negotiator, &operation->request);
    }
    return status;
}

/* Sets *moved when anything was. */
static tutti_status take_in_submissions(struct tutti *t, bool *moved)
{
    struct operation *operations = intake_take(&t->work.intake);
    const bool cancels = take_cancels(t);
    struct operation *next;
    tutti_status status = TUTTI_OK;
    uint64_t count = 0;

    *moved = *moved || operations != NULL;
    for (struct operation *operation = operations; operation != NULL;
            operation = next) {
        next = operation->next;
        observe_operation(t, operation, EVENT_TAKEN_IN, ++count);
        if (status == TUTTI_OK) {
            status = announce(t, operation);
        } else {
            /* The context is failing; the drain takes it from here. */
            operation_advance(operation, OPERATION_ANNOUNCED);
        }
    }
    observe_number(t, EVENT_ALL_TAKEN_IN, count);
    return status == TUTTI_OK && cancels ? announce_cancels(t) : status;
}

/* -------------------------------------------------------------- agreement */

static tutti_status send_action(
        struct tutti *t, struct process_set *set, const struct action *action)
{
    struct wire_writer *out = messages_begin(t, MESSAGE_SET);

    wire_put_varint(out, set->id);
    wire_put_bytes(
            out, set->negotiator.outbox.arena.data + action->offset, action->len);
    return messages_send(t, set->world_ranks[action->to]);
}

static void tell_stall(struct tutti *t, const struct action *action,
        const struct negotiator *negotiator)
{
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%.*s", (int)action->len,
            (const char *)negotiator->outbox.arena.data + action->offset);
    observe_text(t, EVENT_STALL, text);
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
            tell_stall(t, action, negotiator);
            failure_suspect(t);
            log_warn(&t->log, "%.*s%s%s", (int)action->len,
                    (const char *)negotiator->outbox.arena.data + action->offset,
                    t->failure.suspicion[0] == '\0' ? "" : "; ", t->failure.suspicion);
            break;
        case ACTION_NOTE:
            observe_set(t, set, EVENT_PLAN_LEFT);
            log_info(&t->log, "process set %u: %.*s", set->id, (int)action->len,
                    (const char *)negotiator->outbox.arena.data + action->offset);
            break;
        case ACTION_ARRIVAL:
            t->peers.arrival_flags.write(t->peers.arrival_flags.state, &set->op,
                    action->cell, action->word, action->detail);
            set->arrived = true;
            break;
        }
    }
    return status;
}

/* Those who wait for arrivals of this rank see that they have changed. */
static void wake_members(struct tutti *t, const struct process_set *set)
{
    for (int m = 0; m < set->op.size && t->peers.transport.ops->wakes; m++) {
        if (m != set->op.rank) {
            t->peers.transport.ops->wake(t->peers.transport.state, set->world_ranks[m]);
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
    observe_set(t, set, EVENT_SETTLED);
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
        word = t->peers.arrival_flags.read(t->peers.arrival_flags.state, &set->op, m,
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

/* True when a thread of this rank waits for something, or asked not long ago. */
static bool is_waited(const struct tutti *t)
{
    return atomic_load_explicit(&t->driver.waiters, memory_order_relaxed) > 0 ||
            t->engine.now_ns - t->driver.poked_ns < POKED_NS;
}

/* Plans of the set go on as others arrive; what there is to do then makes the set dirty. */
static tutti_status look_at_flags(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    tutti_status status = TUTTI_OK;

    negotiator->waited = is_waited(t);
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

/* A set that is settled: the others may show more of its plans. Their timers are for tick(). */
static tutti_status follow_plans(struct tutti *t, struct process_set *set)
{
    tutti_status status;
    int64_t due;

    if (set->op.rank < 0 || set->negotiator.plans.on == 0) {
        return TUTTI_OK;
    }
    status = look_at_flags(t, set);
    due = negotiator_next_tick(&set->negotiator);
    t->engine.next_tick_ns =
            due < t->engine.next_tick_ns ? due : t->engine.next_tick_ns;
    return status;
}

/*
 * Settles sets until nothing of them is left to do. Settling the world may create or remove
 * sets, and early messages may make new ones dirty.
 */
static tutti_status settle(struct tutti *t)
{
    size_t s = 0;

    while (s < t->sets.count) {
        const size_t count = t->sets.count;
        struct process_set *set = t->sets.sets[s];
        tutti_status status = set->dirty ? TUTTI_OK : follow_plans(t, set);

        if (status != TUTTI_OK) {
            return status;
        }
        if (!set->dirty) {
            s++;
            continue;
        }
        status = settle_set(t, set);
        if (status != TUTTI_OK) {
            return status;
        }
        status = messages_replay(t);
        if (status != TUTTI_OK) {
            return status;
        }
        s = t->sets.count == count ? s : 0;
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------ passes */

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
    tutti_status status = TUTTI_OK;

    if (!moved && t->engine.now_ns < t->engine.next_watch_ns) {
        return TUTTI_OK;
    }
    t->engine.next_watch_ns = t->engine.now_ns + WATCH_NS;
    if (t->failure.page.shared != NULL) {
        failure_suspect(t);
    }
    if (t->dispatcher.running != NULL) {
        status = standstill_look(t);
    }
    return moved || status != TUTTI_OK ? status : dispatch_watch(&t->dispatcher);
}

static tutti_status progress(struct tutti *t, bool *moved)
{
    tutti_status status = take_in_submissions(t, moved);

    if (status != TUTTI_OK) {
        return status;
    }
    status = messages_poll(t, moved);
    if (status != TUTTI_OK ||
            atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) != 0) {
        return status;
    }
    status = tick(t);
    if (status != TUTTI_OK) {
        return status;
    }
    status = settle(t);
    if (status != TUTTI_OK) {
        return status;
    }
    status = dispatch_run(t, moved);
    if (status != TUTTI_OK) {
        return status;
    }
    if (complete_is_pending(&t->engine.inflight)) {
        status = complete_look(t, moved);
    }
    return status == TUTTI_OK ? watch(t, *moved) : status;
}

void engine_progress(struct tutti *t, bool *moved)
{
    tutti_status status;

    t->engine.now_ns = clock_ns();
    if (failure_page_is_posted(&t->failure.page)) {
        failure_look(t);
    }
    observe_requests(t);
    status = progress(t, moved);
    if (status != TUTTI_OK) {
        failure_set_last(t, status);
    }
    if (atomic_load_explicit(&t->failure.is_set, memory_order_acquire) != 0) {
        failure_enforce(t);
    }
}

bool engine_must_poll(const struct tutti *t)
{
    return t->device.state != NULL &&
            (complete_is_pending(&t->engine.inflight) ||
                    t->dispatcher.running != NULL || t->engine.tickets.meets);
}

bool engine_is_flushed(const struct tutti *t)
{
    return t->peers.transport.ops->flushed(t->peers.transport.state);
}
