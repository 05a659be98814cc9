/*
 * Publishes the result of operations, wakes waiters and runs callbacks.
 */
#include "run/complete.h"

#include "agree/meta.h"
#include "base/mem.h"
#include "observe/observe.h"
#include "run/context.h"
#include "run/persistent.h"
#include "run/tensor_use.h"

/* Lock held: the name of an operation of the pool can be used again. */
static void free_name(struct tutti *t, const struct operation *operation)
{
    tensor_use_end(operation->set, operation->request.tensor);
    operation->set->in_flight--;
    if (operation->request.collective == META_JOIN) {
        operation->set->joined = false;
        persistent_gate_all(t);
    }
}

/* It has left the device's queues: its commands are issued, or never will be. */
static void leave_device(struct tutti *t, struct operation *operation)
{
    if (operation_is_on_device(operation)) {
        operation_satisfied(operation, &t->engine.tickets);
    }
    if (operation->on_device.after != NULL) {
        t->device.release(t->device.state, operation->on_device.after);
        operation->on_device.after = NULL;
    }
}

void complete_release(struct tutti *t, struct operation *operation)
{
    leave_device(t, operation);
    if (!persistent_is_held(operation)) {
        free_name(t, operation);
    }
}

/* Of operations that end without having been issued. */
static bool has_any_of_pool(const struct operation *operations)
{
    while (operations != NULL && persistent_is_held(operations)) {
        operations = operations->next;
    }
    return operations != NULL;
}

/*
 * Everything but the callbacks, whose operations are returned, newest first. Under the lock if any
 * is of the pool: names of those are freed, and done, for whoever holds it.
 */
struct operation *complete_publish(struct tutti *t, struct operation *operations)
{
    struct operation *callbacks = NULL;
    struct operation *next;

    for (struct operation *operation = operations; operation != NULL;
            operation = next) {
        const bool was_issued = operation_state(operation) == OPERATION_ISSUED;

        next = operation->next;
        if (was_issued) {
            leave_device(t, operation);
        } else {
            complete_release(t, operation);
        }
        if (operation->status == TUTTI_OK) {
            counter_publish(&t->work.finished.ok, 1);
            counter_publish(&t->work.finished.bytes, operation->memory.bytes);
        } else {
            counter_publish(&t->work.finished.failed, 1);
        }
        operation_advance(operation, OPERATION_DONE);
        observe_operation(t, operation, EVENT_OVER, 0);
        if (!was_issued) {
            counter_publish(&t->work.finished.count, 1);
        }
        if (operation->callback.call != NULL) {
            operation->next = callbacks;
            callbacks = operation;
        }
        /*
         * Pairs with work_is_over(): publishes status, error and the result. From here on
         * an operation with a request is the waiter's.
         */
        atomic_store_explicit(&operation->done, OPERATION_FINAL, memory_order_release);
    }
    return callbacks;
}

static struct operation *reversed(struct operation *operations)
{
    struct operation *result = NULL;

    while (operations != NULL) {
        struct operation *next = operations->next;

        operations->next = result;
        result = operations;
        operations = next;
    }
    return result;
}

void complete_forget_graph(const struct tutti *t, struct operation *operation)
{
    t->device.release(t->device.state, operation->on_device.graph_end);
    operation->on_device.graph_end = NULL;
}

/* The callback may submit the same tensor again, so the operation is free before it runs. */
static void call_back(struct tutti *t, struct operation *operation)
{
    const tutti_callback callback = operation->callback.call;
    const tutti_status status = operation->status;
    struct error *error = operation->error;
    void *user = operation->callback.user;

    operation->error = NULL;
    if (operation_is_in_graph(operation)) {
        complete_forget_graph(t, operation);
    }
    if (operation_end(operation)) {
        pthread_mutex_lock(&t->lock);
        operation_put_back(&t->work.operations, operation);
        pthread_mutex_unlock(&t->lock);
    }
    callback(user, status, error != NULL ? error->text : "");
    mem_free(error);
}

void complete_call_back(struct tutti *t, struct operation *operations)
{
    struct operation *next;

    if (operations == NULL) {
        return;
    }
    operations = reversed(operations);
    atomic_store_explicit(
            &t->driver.calling_back, (uintptr_t)pthread_self(), memory_order_relaxed);
    for (struct operation *operation = operations; operation != NULL;
            operation = next) {
        next = operation->next;
        call_back(t, operation);
        counter_publish(&t->driver.calls, 1);
    }
    atomic_store_explicit(&t->driver.calling_back, 0, memory_order_relaxed);
}

void complete_list(struct tutti *t, struct operation *operations)
{
    const bool locked = has_any_of_pool(operations);
    struct operation *callbacks;

    if (locked) {
        pthread_mutex_lock(&t->lock);
    }
    callbacks = complete_publish(t, operations);
    if (locked) {
        pthread_mutex_unlock(&t->lock);
    }
    doorbell_ring(&t->driver.done_bell);
    complete_call_back(t, callbacks);
}

void complete_one(struct tutti *t, struct operation *operation, tutti_status status,
        struct error *error)
{
    operation_set_result(operation, status, error);
    operation->next = NULL;
    complete_list(t, operation);
}

void complete_failed(struct tutti *t, struct operation *operation, tutti_status status,
        const char *text)
{
    struct error error;

    error_fill(&error, status, t->rank, "%s", text);
    complete_one(t, operation, status, error_copy(&error));
}

void complete_drain(struct tutti *t, const struct process_set *set,
        enum operation_state last, const struct error *error)
{
    struct operation *drained = NULL;
    uint32_t position = 0;
    struct operation *operation;

    pthread_mutex_lock(&t->lock);
    while ((operation = operation_next(&t->work.operations, &position)) != NULL) {
        if (operation_state(operation) < OPERATION_ANNOUNCED ||
                operation_state(operation) > last ||
                (set != NULL && operation->set != set)) {
            continue;
        }
        operation_set_result(operation, error->status, error_copy(error));
        operation->next = drained;
        drained = operation;
    }
    pthread_mutex_unlock(&t->lock);
    if (drained != NULL) {
        complete_list(t, drained);
    }
}
