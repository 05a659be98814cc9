/*
 * One step of progress: what comes in is agreed on, and what is agreed on goes to the next steps.
 */
#include "run/engine.h"

#include <stdio.h>

#include "agree/negotiator.h"
#include "agree/outbox.h"
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

/* How often a rank looks whether batches move and the others live. */
#define WATCH_NS 50000000

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
 * A pair that was made for a submission joins the sets; its other rank is told, so that it can say
 * when it leaves.
 */
static tutti_status enter_pair(struct tutti *t, struct process_set *set)
{
    if (!process_sets_enter(t, set)) {
        return pairs_no_memory();
    }
    wire_put_varint(messages_begin(t, MESSAGE_SET), set->id);
    return messages_send(t, set->world_ranks[1 - set->op.rank]);
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
    status = operation->set->is_entered ? TUTTI_OK : enter_pair(t, operation->set);
    if (status != TUTTI_OK) {
        return status;
    }
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

static tutti_status send_to(struct tutti *t, struct process_set *set, int member,
        const struct action *action)
{
    struct wire_writer *out = messages_begin(t, MESSAGE_SET);

    wire_put_varint(out, set->id);
    wire_put_bytes(
            out, set->negotiator.outbox.arena.data + action->offset, action->len);
    return messages_send(t, set->world_ranks[member]);
}

static void tell_stall(struct tutti *t, const struct action *action,
        const struct negotiator *negotiator)
{
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%.*s", (int)action->len,
            (const char *)negotiator->outbox.arena.data + action->offset);
    observe_text(t, EVENT_STALL, text);
}

/* A member reads what this rank shows. */
static void wake_member(struct tutti *t, const struct process_set *set, int member)
{
    if (t->peers.transport.ops->wakes) {
        t->peers.transport.ops->wake(
                t->peers.transport.state, set->world_ranks[member]);
    }
}

/* A log message for the children of this node; where the ring has no room it is sent. */
static tutti_status show_log(
        struct tutti *t, struct process_set *set, const struct action *action)
{
    const struct tree *tree = &set->negotiator.tree;
    const bool shown = t->peers.board.write(t->peers.board.state, &set->op, tree->near,
            tree->near_count, action->sequence,
            set->negotiator.outbox.arena.data + action->offset, action->len);
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < tree->near_count && status == TUTTI_OK; i++) {
        if (shown) {
            wake_member(t, set, tree->near[i]);
        } else {
            status = send_to(t, set, tree->near[i], action);
        }
    }
    return status;
}

tutti_status engine_act(void *user)
{
    struct process_set *set = user;
    struct tutti *t = set->context;
    const struct negotiator *negotiator = &set->negotiator;
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < negotiator->outbox.action_count && status == TUTTI_OK; i++) {
        const struct action *action = &negotiator->outbox.actions[i];

        switch (action->kind) {
        case ACTION_SEND:
            status = send_to(t, set, action->to, action);
            break;
        case ACTION_STALL:
            tell_stall(t, action, negotiator);
            failure_suspect(t);
            log_warn(&t->log, "%.*s%s%s", (int)action->len,
                    (const char *)negotiator->outbox.arena.data + action->offset,
                    t->failure.suspicion[0] == '\0' ? "" : "; ", t->failure.suspicion);
            break;
        case ACTION_LOG:
            status = show_log(t, set, action);
            break;
        case ACTION_SHOW:
            t->peers.board.show(
                    t->peers.board.state, &set->op, action->index, action->shown);
            wake_member(t, set, negotiator->tree.parent);
            break;
        }
    }
    return status;
}

static tutti_status settle_set(struct tutti *t, struct process_set *set)
{
    struct negotiator *negotiator = &set->negotiator;
    tutti_status status;

    set->dirty = false;
    status = negotiator_flush(negotiator);
    if (status == TUTTI_OK) {
        status = engine_act(set);
    }
    observe_set(t, set, EVENT_SETTLED);
    if (status == TUTTI_OK && negotiator->outbox.outcome_count > 0) {
        status = outcomes_take(t, set);
    }
    negotiator_clear(negotiator);
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
        tutti_status status = TUTTI_OK;

        if (!set->dirty && set->op.rank >= 0 &&
                set->negotiator.names.active.first != NULL) {
            status = messages_read_board(t, set);
        }
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

static tutti_status watch(struct tutti *t)
{
    tutti_status status = TUTTI_OK;

    if (t->engine.now_ns < t->engine.next_watch_ns) {
        return TUTTI_OK;
    }
    t->engine.next_watch_ns = t->engine.now_ns + WATCH_NS;
    if (t->failure.page.shared != NULL) {
        failure_suspect(t);
    }
    if (t->dispatcher.running != NULL) {
        status = standstill_look(t);
    }
    return status != TUTTI_OK ? status : dispatch_watch(&t->dispatcher);
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
    return status == TUTTI_OK ? watch(t) : status;
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
