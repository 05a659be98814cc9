/*
 * Completes operations on device memory: issued first, done when the GPU is.
 */
#include "run/complete_device.h"

#include "base/clock.h"
#include "base/mem.h"
#include "observe/observe.h"
#include "run/complete.h"
#include "run/context.h"
#include "run/operation.h"

/*
 * After a failure events pass soon, since the backends have given up. Those behind commands
 * of the application that never end are not waited for any longer than this.
 */
#define PATIENCE_NS 5000000000

/* ------------------------------------------------------------- the queue */

/* One writer, the engine. */
static void change_count(struct device_inflight *queue, uint32_t change)
{
    const uint32_t before = atomic_load_explicit(&queue->count, memory_order_relaxed);

    /* Release: pairs with complete_is_pending(), for those that wait for the last one. */
    atomic_store_explicit(&queue->count, before + change, memory_order_release);
}

/* A new newest one; takes the event's reference, also when it is NULL: out of memory. */
static struct inflight *add_issue(struct tutti *t, struct device_event *event)
{
    struct device_inflight *queue = &t->engine.inflight;
    struct inflight *added = queue->spare;

    if (added != NULL) {
        queue->spare = added->next;
    } else {
        added = mem_calloc(1, sizeof *added);
    }
    if (added == NULL) {
        t->device.release(t->device.state, event);
        return NULL;
    }
    *added = (struct inflight){ .event = event };
    if (queue->newest != NULL) {
        queue->newest->next = added;
    } else {
        queue->oldest = added;
    }
    queue->newest = added;
    change_count(queue, 1);
    return added;
}

/* Its operations have ended. */
static void remove_oldest(struct tutti *t)
{
    struct device_inflight *queue = &t->engine.inflight;
    struct inflight *oldest = queue->oldest;

    queue->oldest = oldest->next;
    if (queue->oldest == NULL) {
        queue->newest = NULL;
    }
    t->device.release(t->device.state, oldest->event);
    oldest->next = queue->spare;
    queue->spare = oldest;
    change_count(queue, (uint32_t)-1);
}

bool complete_awaits(struct tutti *t, struct device_event *event)
{
    int64_t *patience_ns = &t->engine.inflight.patience_ns;

    if (t->device.passed(t->device.state, event) != TUTTI_AGAIN) {
        return false;
    }
    if (*patience_ns == 0) {
        *patience_ns = clock_ns() + PATIENCE_NS;
    }
    return clock_ns() < *patience_ns;
}

void complete_device_fini(struct tutti *t)
{
    while (t->engine.inflight.oldest != NULL) {
        remove_oldest(t);
    }
    while (t->engine.inflight.spare != NULL) {
        struct inflight *next = t->engine.inflight.spare->next;

        mem_free(t->engine.inflight.spare);
        t->engine.inflight.spare = next;
    }
}

/* ------------------------------------------------- operations that are issued */

static void join(struct inflight *issue, struct operation *operation)
{
    struct operation *newest = issue->operations;

    /* Newest first, as complete_publish() returns what it is to be called back for. */
    operation->on_device.issue = issue;
    operation->next = newest;
    operation->on_device.before = NULL;
    if (newest != NULL) {
        newest->on_device.before = operation;
    }
    issue->operations = operation;
}

static void leave(struct operation *operation)
{
    struct inflight *issue = operation->on_device.issue;

    if (issue == NULL) {
        return;
    }
    if (operation->next != NULL) {
        operation->next->on_device.before = operation->on_device.before;
    }
    if (operation->on_device.before != NULL) {
        operation->on_device.before->next = operation->next;
    } else {
        issue->operations = operation->next;
    }
    operation->on_device.issue = NULL;
    operation->next = NULL;
    operation->on_device.before = NULL;
}

/*
 * Lock held. Counted as ended after the issue is counted as pending, so that a context
 * never seems to have nothing to do in between.
 */
static void issue_operation(
        struct tutti *t, struct inflight *issue, struct operation *operation)
{
    operation_set_result(operation, TUTTI_OK, NULL);
    complete_release(t, operation);
    operation_advance(operation, OPERATION_ISSUED);
    join(issue, operation);
    counter_publish(&t->work.finished.count, 1);
    /* Pairs with work_is_over_or_issued(): the event is there. */
    atomic_store_explicit(&operation->done, OPERATION_PASSING, memory_order_release);
}

tutti_status complete_issue(
        struct tutti *t, struct operation *operations, struct device_event *event)
{
    struct inflight *issue;
    struct operation *next;

    issue = add_issue(t, event);
    if (issue == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for what is issued");
    }
    pthread_mutex_lock(&t->lock);
    for (struct operation *operation = operations; operation != NULL;
            operation = next) {
        next = operation->next;
        issue_operation(t, issue, operation);
    }
    pthread_mutex_unlock(&t->lock);
    doorbell_ring(&t->driver.done_bell);
    return TUTTI_OK;
}

void complete_captured(
        struct tutti *t, struct operation *operations, struct device_event *event)
{
    for (struct operation *operation = operations; operation != NULL;
            operation = operation->next) {
        t->device.hold(t->device.state, event);
        operation->on_device.graph_end = event;
    }
    t->device.release(t->device.state, event);
    complete_list(t, operations);
}

/* Lock held: all of them, in the order in which they came. */
static struct operation *take_issued(struct inflight *issue)
{
    struct operation *operations = NULL;

    while (issue->operations != NULL) {
        struct operation *operation = issue->operations;

        leave(operation);
        operation->next = operations;
        operations = operation;
    }
    return operations;
}

/* Ends the operations of the oldest issue; `error` is NULL when it has passed. */
static void end_oldest(struct tutti *t, const struct error *error)
{
    struct operation *callbacks;
    struct operation *operations;

    pthread_mutex_lock(&t->lock);
    operations = take_issued(t->engine.inflight.oldest);
    for (struct operation *operation = operations; operation != NULL && error != NULL;
            operation = operation->next) {
        operation_set_result(operation, error->status, error_copy(error));
    }
    callbacks = complete_publish(t, operations);
    pthread_mutex_unlock(&t->lock);
    remove_oldest(t);
    doorbell_ring(&t->driver.done_bell);
    complete_call_back(t, callbacks);
}

tutti_status complete_look(struct tutti *t, bool *moved)
{
    while (t->engine.inflight.oldest != NULL) {
        const tutti_status status =
                t->device.passed(t->device.state, t->engine.inflight.oldest->event);

        if (status == TUTTI_AGAIN) {
            return TUTTI_OK;
        }
        if (status != TUTTI_OK) {
            return status;
        }
        *moved = true;
        end_oldest(t, NULL);
    }
    return TUTTI_OK;
}

bool complete_give_up(struct tutti *t, const struct error *error)
{
    while (t->engine.inflight.oldest != NULL) {
        if (complete_awaits(t, t->engine.inflight.oldest->event)) {
            return false;
        }
        end_oldest(t, error);
    }
    return true;
}

/*
 * Lock held. Requests change hands without it, but not while they are in an issue: what is
 * of this request now stays so.
 */
static bool is_issued(const struct operation *operation, tutti_request request)
{
    return operation != NULL && operation->on_device.issue != NULL &&
            operation_is_of(operation, request);
}

/* Done, and not consumed. */
static bool is_in_graph(const struct operation *operation, tutti_request request)
{
    return operation != NULL && operation_is_of(operation, request) &&
            operation_is_done(operation) && operation_is_in_graph(operation);
}

void complete_events(struct tutti *t, struct operation *const *operations,
        const tutti_request *requests, struct device_event **events, size_t count)
{
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < count; i++) {
        events[i] = NULL;
        if (is_issued(operations[i], requests[i])) {
            events[i] = operations[i]->on_device.issue->event;
        } else if (is_in_graph(operations[i], requests[i])) {
            events[i] = operations[i]->on_device.graph_end;
        }
        if (events[i] != NULL) {
            t->device.hold(t->device.state, events[i]);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

/* Lock held. The engine may have ended it meanwhile, or another thread have had it. */
static void end_on_stream(
        struct tutti *t, struct operation *operation, tutti_request request)
{
    if (!is_issued(operation, request)) {
        return;
    }
    leave(operation);
    operation_advance(operation, OPERATION_DONE);
    observe_operation(t, operation, EVENT_STREAMED, 0);
    /* Pairs with work_is_done(), as in complete.c. */
    atomic_store_explicit(&operation->done, OPERATION_FINAL, memory_order_release);
}

void complete_stream(struct tutti *t, struct operation *const *operations,
        const tutti_request *requests, struct device_event *const *events, size_t count)
{
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < count; i++) {
        if (events[i] != NULL) {
            end_on_stream(t, operations[i], requests[i]);
        }
    }
    pthread_mutex_unlock(&t->lock);
    doorbell_ring(&t->driver.done_bell);
}
