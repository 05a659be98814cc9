/*
 * Queues batches, launches them in order within a window, and steps those in flight.
 */
#include "run/dispatch.h"

#include <limits.h>

#include "base/clock.h"
#include "observe/observe.h"
#include "run/complete.h"
#include "run/complete_device.h"
#include "run/context.h"
#include "run/fusion.h"
#include "run/launch.h"
#include "run/operation.h"
#include "run/order.h"
#include "run/sizes.h"
#include "run/stage.h"

/*
 * Batches of device memory are launched in one order on all ranks (run/order.h); but those of
 * pairs, which go through the host.
 */
static bool is_ordered(const struct tutti *t, const struct batch *batch)
{
    return batch->space == OP_DEVICE && tickets_are_used(&t->engine.tickets) &&
            !op_is_pair(&batch->set->op);
}

void dispatch_queue(struct tutti *t, struct batch *batch)
{
    struct process_set *set = batch->set;

    batch->next = NULL;
    batch->time.agreed_ns = t->engine.now_ns;
    batch_advance(batch, BATCH_WAITING);
    if (set->last_waiting != NULL) {
        set->last_waiting->next = batch;
    } else {
        set->first_waiting = batch;
    }
    set->last_waiting = batch;
    t->dispatcher.waiting++;
    if (is_ordered(t, batch)) {
        order_queued(t, batch);
    }
}

static void recycle(struct dispatcher *dispatcher, struct batch *batch)
{
    if (batch->buffer.memory != NULL) {
        fusion_release(dispatcher, batch);
    }
    batch_put_back(dispatcher, batch);
}

/* Takes the operations of a batch that has ended; a list over next. */
static struct operation *take_operations(struct batch *batch)
{
    struct operation *operations = NULL;

    for (size_t i = batch->operation_count; i > 0; i--) {
        operation_set_result(batch->operations[i - 1], TUTTI_OK, NULL);
        batch->operations[i - 1]->next = operations;
        operations = batch->operations[i - 1];
    }
    batch->operation_count = 0;
    return operations;
}

/*
 * The backend has ended it, so its set goes on, or may be removed. Its operations are
 * over, or, of device memory, issued.
 */
static tutti_status end_operations(struct tutti *t, struct batch *batch)
{
    struct device_event *event = batch->issued;

    batch->time.ended_ns = clock_ns();
    observe(t, batch, EVENT_ENDED);
    batch->set->running--;
    if (batch_is_staged(batch)) {
        t->device.hold(t->device.state, event);
    } else {
        batch->issued = NULL;
    }
    if (event == NULL) {
        complete_list(t, take_operations(batch));
        return TUTTI_OK;
    }
    return complete_issue(t, take_operations(batch), event);
}

/*
 * Backends tell batches of a set apart by sequence modulo OP_INFLIGHT_MAX, so one that
 * takes long holds up those that far behind it.
 */
static bool window_is_open(const struct tutti *t, const struct process_set *set)
{
    if (set->running >= t->config.inflight) {
        return false;
    }
    for (const struct batch *b = t->dispatcher.running; b != NULL; b = b->next) {
        if (b->state != BATCH_RETURNING && b->set == set &&
                set->sequence - b->op.sequence >= OP_INFLIGHT_MAX) {
            return false;
        }
    }
    return true;
}

/*
 * A reducescatter whose rows all fall to members that have joined: the others know it, and
 * backends take no empty batches of reductions.
 */
static bool moves_nothing(const struct batch *batch)
{
    size_t bytes = 0;

    if (batch->present.places == NULL ||
            batch->operations[0]->request.collective != TUTTI_REDUCESCATTER) {
        return false;
    }
    for (size_t i = 0; i < batch->operation_count; i++) {
        for (int m = 0; m < batch->present.set.size; m++) {
            bytes += batch->operations[i]->parts.list[batch->present.places[m]].bytes;
        }
    }
    return bytes == 0;
}

/* Takes the first batch of a set that has some waiting. */
static struct batch *take_waiting(
        struct dispatcher *dispatcher, struct process_set *set)
{
    struct batch *batch = set->first_waiting;

    set->first_waiting = batch->next;
    if (set->first_waiting == NULL) {
        set->last_waiting = NULL;
    }
    dispatcher->waiting--;
    batch->next = NULL;
    return batch;
}

/* Behind the others, but with `priority` before those that are less urgent. */
static void add_running(
        const struct tutti *t, struct dispatcher *dispatcher, struct batch *batch)
{
    struct batch **at = &dispatcher->running;

    while (*at != NULL && !(t->config.priority && (*at)->priority < batch->priority)) {
        at = &(*at)->next;
    }
    batch->next = *at;
    *at = batch;
}

static bool may_launch(const struct tutti *t, const struct batch *batch)
{
    return !is_ordered(t, batch) || (order_allows(t, batch) && !sizes_are_awaited(t));
}

static tutti_status launch_waiting(
        struct tutti *t, struct process_set *set, bool *moved)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    tutti_status status = TUTTI_OK;

    while (set->first_waiting != NULL && status == TUTTI_OK && window_is_open(t, set) &&
            may_launch(t, set->first_waiting)) {
        struct batch *batch = take_waiting(dispatcher, set);

        *moved = true;
        if (is_ordered(t, batch)) {
            order_use(t, batch);
        }
        if (batch->operation_count == 0) {
            set->sequence++;
            recycle(dispatcher, batch);
            continue;
        }
        set->running++;
        batch->time.begun_ns = t->engine.now_ns;
        observe(t, batch, EVENT_BEGUN);
        if (moves_nothing(batch)) {
            batch->op.sequence = set->sequence++;
            batch->backend = NULL;
            status = end_operations(t, batch);
            recycle(dispatcher, batch);
            continue;
        }
        batch->time.moved_ns = t->engine.now_ns;
        batch->time.told_ns = 0;
        add_running(t, dispatcher, batch);
        status = launch_batch(t, batch);
        observe(t, batch, EVENT_LAUNCHED);
    }
    return status;
}

/*
 * A batch that its backend has ended. One that is staged stays until the host's memory is free
 * again: TUTTI_AGAIN.
 */
static tutti_status end_batch(struct tutti *t, struct batch *batch)
{
    tutti_status status;

    if (batch->buffer.memory != NULL) {
        observe(t, batch, EVENT_UNPACKS);
        fusion_unpack(batch);
        observe(t, batch, EVENT_UNPACKED);
    }
    if (!batch_is_staged(batch)) {
        return TUTTI_OK;
    }
    status = stage_out(t, batch);
    if (status != TUTTI_OK) {
        return status;
    }
    status = end_operations(t, batch);
    return status == TUTTI_OK ? TUTTI_AGAIN : status;
}

/* Copies between host and device; then a backend of host memory begins, or it is over. */
static tutti_status step_copies(struct tutti *t, struct batch *batch, bool *moved)
{
    tutti_status status = stage_look(t, batch);

    if (status != TUTTI_OK) {
        return status;
    }
    *moved = true;
    if (batch->state == BATCH_RETURNING) {
        return TUTTI_OK;
    }
    stage_on_host(batch);
    status = launch_staged(t, batch);
    return status == TUTTI_OK ? TUTTI_AGAIN : status;
}

static tutti_status step(struct tutti *t, struct batch *batch, bool *moved)
{
    tutti_status status;

    if (batch->state != BATCH_RUNNING) {
        return step_copies(t, batch, moved);
    }
    observe(t, batch, EVENT_STEPS);
    status = batch->backend->ops->step(batch->backend->state, batch->task, moved);
    observe(t, batch, EVENT_STEPPED);
    if (status == TUTTI_OK && batch->sizes.are_asked) {
        *moved = true;
        status = launch_sized(t, batch);
        return status == TUTTI_OK ? TUTTI_AGAIN : status;
    }
    return status == TUTTI_OK ? end_batch(t, batch) : status;
}

/* It runs no more. A staged one has only kept the host's memory. */
static tutti_status finish(struct tutti *t, struct batch *batch)
{
    tutti_status status = TUTTI_OK;

    if (batch->state == BATCH_RETURNING) {
        observe(t, batch, EVENT_RETURNED);
    } else {
        status = end_operations(t, batch);
    }
    recycle(&t->dispatcher, batch);
    return status;
}

/*
 * With `priority` a less urgent batch moves only when nothing more urgent can, because it
 * waits for other ranks. That holds nothing up for good: each batch ends after a number of
 * moves that is bounded.
 */
static tutti_status step_running(struct tutti *t, bool *moved)
{
    struct batch **at = &t->dispatcher.running;
    int urgency = INT_MIN; /* of what moved last and goes on: of the most urgent */

    while (*at != NULL && (*at)->priority >= urgency) {
        struct batch *batch = *at;
        bool went_on = false;
        tutti_status status = step(t, batch, &went_on);

        if (went_on) {
            batch->time.moved_ns = t->engine.now_ns;
            *moved = true;
        }
        if (status == TUTTI_AGAIN) {
            urgency = t->config.priority && went_on ? batch->priority : urgency;
            at = &batch->next;
            continue;
        }
        if (status == TUTTI_OK) {
            *at = batch->next;
            *moved = true;
            status = finish(t, batch);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

/* Device batches of a set may have to wait for one of a set that was looked at before. */
static tutti_status launch_all(struct tutti *t, bool *moved)
{
    tutti_status status = TUTTI_OK;
    uint64_t used;

    do {
        used = t->engine.tickets.used;
        if (tickets_are_used(&t->engine.tickets)) {
            status = order_advance(t, moved);
        }
        if (t->dispatcher.waiting == 0) {
            break;
        }
        for (size_t s = 0; s < t->sets.count && status == TUTTI_OK; s++) {
            status = launch_waiting(t, t->sets.sets[s], moved);
        }
    } while (status == TUTTI_OK && t->engine.tickets.used != used);
    return status;
}

tutti_status dispatch_run(struct tutti *t, bool *moved)
{
    const tutti_status status = launch_all(t, moved);

    return status == TUTTI_OK ? step_running(t, moved) : status;
}

void dispatch_forget(struct dispatcher *dispatcher, struct process_set *set)
{
    while (set->first_waiting != NULL) {
        recycle(dispatcher, take_waiting(dispatcher, set));
    }
}

/* Nobody reads or writes the caller's memory for it any more. */
static bool is_cancelled(struct tutti *t, const struct batch *batch)
{
    if (batch->state == BATCH_FETCHING) {
        return !complete_awaits(t, batch->issued);
    }
    return batch->state != BATCH_RUNNING ||
            batch->backend->ops->cancel(batch->backend->state, batch->task);
}

bool dispatch_cancel_all(struct tutti *t)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    struct batch **at = &dispatcher->running;

    for (size_t s = 0; s < t->sets.count; s++) {
        dispatch_forget(dispatcher, t->sets.sets[s]);
    }
    while (*at != NULL) {
        struct batch *batch = *at;

        if (!is_cancelled(t, batch)) {
            at = &batch->next;
            continue;
        }
        *at = batch->next;
        batch_advance(batch, BATCH_CANCELLED);
        batch->next = dispatcher->cancelled;
        dispatcher->cancelled = batch;
    }
    return dispatcher->running == NULL;
}

tutti_status dispatch_watch(const struct dispatcher *dispatcher)
{
    tutti_status status = TUTTI_OK;

    for (int b = 0; b < dispatcher->backend_count && status == TUTTI_OK; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];

        if (backend->ops->watch != NULL) {
            status = backend->ops->watch(backend->state);
        }
    }
    return status;
}

static void free_batches(const struct dispatcher *dispatcher, struct batch *batches)
{
    for (struct batch *b = batches; b != NULL; b = b->next) {
        if (b->buffer.memory != NULL) {
            dispatcher->memory->give_back(dispatcher->memory->user, b->buffer.memory);
        }
    }
    batch_free_all(batches);
}

void dispatch_fini(struct tutti *t)
{
    struct dispatcher *dispatcher = &t->dispatcher;

    for (int b = dispatcher->backend_count; b > 0; b--) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b - 1];

        backend->ops->close(backend->state);
    }
    free_batches(dispatcher, dispatcher->running);
    free_batches(dispatcher, dispatcher->spare);
    free_batches(dispatcher, dispatcher->cancelled);
    for (int i = 0; i < dispatcher->buffer_count; i++) {
        dispatcher->memory->give_back(
                dispatcher->memory->user, dispatcher->buffers[i].memory);
    }
    *dispatcher = (struct dispatcher){ 0 };
}
