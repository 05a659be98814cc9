/*
 * Waiting for requests and consuming them.
 */
#include <inttypes.h>

#include "api/call.h"
#include "api/wait.h"
#include "base/clock.h"
#include "observe/observe.h"
#include "run/complete.h"
#include "run/context.h"
#include "run/driver.h"
#include "run/failure.h"

tutti_status call_check_context(const tutti *t)
{
    if (t == NULL) {
        return error_set(TUTTI_ERR_INVALID, "the context is NULL");
    }
    if (forkmark_is_child(&t->origin.forkmark)) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d forked, and this is the child: only the parent may use the "
                "context; call exec or _exit here",
                t->rank);
    }
    return TUTTI_OK;
}

static bool is_over(const struct wait *wait, size_t i)
{
    const struct operation *operation = wait->operations[i];

    if (operation == NULL) {
        return true;
    }
    if (!wait->issued) {
        return operation_is_over(operation, wait->requests[i]);
    }
    return operation_is_over_or_issued(operation, wait->requests[i]) ||
            (failure_lingers(wait->t) && operation_is_on_device(operation));
}

static bool wait_is_over(void *what)
{
    struct wait *wait = what;

    while (wait->over < wait->count && is_over(wait, wait->over)) {
        wait->over++;
    }
    return wait->over == wait->count;
}

static tutti_status unknown(tutti_request request)
{
    return error_set(TUTTI_ERR_INVALID,
            "%" PRIu64
            " is no request that is waited for here; it was consumed, or belongs "
            "to another context",
            request);
}

/* Its output is there and was not taken yet. */
static bool holds_output(const struct operation *operation)
{
    return operation->memory.owns_output && operation->status == TUTTI_OK;
}

/* Operations of consumed requests that go back into the pool, over next. */
struct spent {
    struct operation *operations;
};

static void put_back(tutti *t, struct spent *spent)
{
    if (spent->operations == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    while (spent->operations != NULL) {
        struct operation *operation = spent->operations;

        spent->operations = operation->next;
        operation_put_back(&t->work.operations, operation);
    }
    pthread_mutex_unlock(&t->lock);
}

/*
 * True when an operation is done; else the error says that it is not. The name is read under the
 * lock: without it the operation could end, and its name be forgotten.
 */
static bool check_done(tutti *t, const struct operation *operation)
{
    bool is_done = operation_is_done(operation);

    if (!is_done) {
        pthread_mutex_lock(&t->lock);
        is_done = operation_is_done(operation);
        if (!is_done && operation_is_issued(operation)) {
            (void)error_set(TUTTI_ERR_TIMEOUT,
                    "%s is issued, and not finished by the GPU of rank %d",
                    meta_collective_name(operation->request.collective), t->rank);
        } else if (!is_done) {
            (void)error_set(TUTTI_ERR_TIMEOUT,
                    "%s \"%s\" is not finished on rank %d%s%s",
                    meta_collective_name(operation->request.collective),
                    operation->request.name, t->rank,
                    t->failure.suspicion[0] == '\0' ? "" : "; ", t->failure.suspicion);
        }
        pthread_mutex_unlock(&t->lock);
    }
    return is_done;
}

/*
 * The final status of a request, which is gone then, unless its output is still to be
 * taken.
 */
static tutti_status consume(tutti *t, tutti_request *request, struct spent *spent)
{
    struct operation *operation = operation_find(&t->work.operations, *request);
    tutti_status status;

    if (operation == NULL) {
        return unknown(*request);
    }
    if (!check_done(t, operation)) {
        return TUTTI_ERR_TIMEOUT;
    }
    if (!operation_claim(operation, *request)) {
        return unknown(*request);
    }
    status = operation->status;
    if (operation->error != NULL) {
        (void)error_raise(operation->error);
    } else if (status != TUTTI_OK) {
        (void)error_set(status, "%s", tutti_status_text(status));
    }
    if (status == TUTTI_ERR_FINALIZED) {
        /* Another rank has left; if this one fails of it, that is the cause. */
        failure_page_fail(&t->failure.page, CONTEXT_FAILURE_TOLD);
    }
    if (holds_output(operation)) {
        operation_unclaim(operation);
        return status;
    }
    *request = TUTTI_REQUEST_NULL;
    if (operation_is_in_graph(operation)) {
        complete_forget_graph(t, operation);
    }
    if (operation_end(operation)) {
        operation->next = spent->operations;
        spent->operations = operation;
    }
    return status;
}

static tutti_status consume_one(tutti *t, tutti_request *request)
{
    struct spent spent = { 0 };
    const tutti_status status = consume(t, request, &spent);

    put_back(t, &spent);
    return status;
}

tutti_status wait_prepare(
        tutti *t, struct wait *wait, const tutti_request *requests, size_t count)
{
    tutti_status status = TUTTI_OK;

    wait->t = t;
    wait->count = count;
    wait->over = 0;
    wait->issued = false;
    for (size_t i = 0; i < count; i++) {
        wait->requests[i] = requests[i];
        wait->operations[i] = NULL;
        if (requests[i] == TUTTI_REQUEST_NULL) {
            continue;
        }
        wait->operations[i] = operation_find(&t->work.operations, requests[i]);
        if (wait->operations[i] == NULL && status == TUTTI_OK) {
            status = unknown(requests[i]);
        }
    }
    return status;
}

int64_t wait_deadline(int64_t timeout_ns)
{
    return timeout_ns == TUTTI_FOREVER ? INT64_MAX
                                       : clock_deadline(clock_ns(), timeout_ns);
}

/* Only device batches are held back until somebody waits for them. */
static void demand(tutti *t, const struct wait *wait,
        void (*tell)(struct operation *, struct tickets *))
{
    for (size_t i = 0; t->device.state != NULL && i < wait->count; i++) {
        if (wait->operations[i] != NULL &&
                operation_is_of(wait->operations[i], wait->requests[i])) {
            tell(wait->operations[i], &t->engine.tickets);
        }
    }
}

/* What is half in a graph gets there, whatever the deadline: then its capture may end. */
static bool none_is_captured(void *what)
{
    const tutti *t = what;

    /* Acquire: pairs with the engine's release. */
    return atomic_load_explicit(&t->engine.capturing, memory_order_acquire) == 0 ||
            atomic_load_explicit(&t->failure.is_set, memory_order_acquire) != 0;
}

/* The first that is not over, or was the last to be. */
static const struct operation *waited_for(const struct wait *wait)
{
    return wait->operations[wait->over < wait->count ? wait->over : wait->count - 1];
}

void wait_until(tutti *t, struct wait *wait, int64_t deadline_ns)
{
    int64_t begin_ns;

    if (wait_is_over(wait)) {
        return;
    }
    begin_ns = clock_ns();
    observe_operation(t, waited_for(wait), EVENT_WAIT, (uint64_t)begin_ns);
    demand(t, wait, operation_demand);
    driver_wait(t, wait_is_over, wait, deadline_ns);
    demand(t, wait, operation_satisfied);
    if (!none_is_captured(t)) {
        driver_wait(t, none_is_captured, t, INT64_MAX);
    }
    observe_operation(t, waited_for(wait), EVENT_LEFT, (uint64_t)begin_ns);
}

tutti_status call_wait(tutti *t, tutti_request *request, int64_t timeout_ns)
{
    struct wait wait;
    tutti_status status = wait_prepare(t, &wait, request, 1);

    if (status == TUTTI_OK) {
        wait_until(t, &wait, wait_deadline(timeout_ns));
        status = consume_one(t, request);
    }
    return status;
}

/* What does not wait is refused less. */
static tutti_status test_check(tutti *t, const void *requests)
{
    const tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (requests == NULL) {
        return error_set(TUTTI_ERR_INVALID, "the pointer to the request is NULL");
    }
    return context_may_wait(t);
}

tutti_status wait_check(tutti *t, const void *requests)
{
    const tutti_status status = test_check(t, requests);

    if (status == TUTTI_OK && groups_are_open(&t->work.groups) && group_is_open(t)) {
        return error_set(TUTTI_ERR_INVALID,
                "waiting inside a group (rank %d); end it first", t->rank);
    }
    return status;
}

/* Rows that came from each member. */
static void copy_rows(const struct operation *operation, int64_t *rows_of)
{
    const struct meta *meta = &operation->request.meta;
    const size_t row_bytes = (size_t)meta->row_count * tutti_dtype_size(meta->dtype);
    const int size = operation->parts.members;

    for (int i = 0; i < size; i++) {
        rows_of[i] = (int64_t)(operation->parts.list[size + i].bytes / row_bytes);
    }
}

/* As consume_one(), but hands the output over. */
static tutti_status take_output(
        tutti *t, tutti_request *request, void **output, int64_t *rows_of)
{
    struct operation *operation = operation_find(&t->work.operations, *request);

    if (operation != NULL && !operation->memory.owns_output) {
        /* Without the name, which may be forgotten when the operation is over. */
        return error_set(TUTTI_ERR_INVALID,
                "this %s of rank %d has an output of the caller; there is nothing to "
                "take",
                meta_collective_name(operation->request.collective), t->rank);
    }
    if (operation == NULL || !operation_is_done(operation) ||
            !holds_output(operation)) {
        return consume_one(t, request);
    }
    if (!operation_claim(operation, *request)) {
        return unknown(*request);
    }
    *output = operation->memory.output;
    if (rows_of != NULL) {
        copy_rows(operation, rows_of);
    }
    operation->memory.owns_output = false;
    operation_unclaim(operation);
    return consume_one(t, request);
}

/* Nothing is waited for when the request cannot have an output. */
static bool may_hold_output(tutti *t, tutti_request request)
{
    const struct operation *operation = operation_find(&t->work.operations, request);

    return operation != NULL && operation->memory.owns_output;
}

tutti_status tutti_request_take_output(tutti *t, tutti_request *request, void **output,
        int64_t *rows_of, int64_t timeout_ns)
{
    struct wait wait;
    tutti_status status = wait_check(t, request);

    if (status == TUTTI_OK && output == NULL) {
        status = error_set(
                TUTTI_ERR_INVALID, "tutti_request_take_output: output is NULL");
    }
    if (status == TUTTI_OK && *request == TUTTI_REQUEST_NULL) {
        status = unknown(*request);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    driver_enter(t);
    if (may_hold_output(t, *request)) {
        (void)wait_prepare(t, &wait, request, 1);
        wait_until(t, &wait, wait_deadline(timeout_ns));
    }
    status = take_output(t, request, output, rows_of);
    driver_leave(t);
    return status;
}

tutti_status tutti_wait(tutti *t, tutti_request *request, int64_t timeout_ns)
{
    tutti_status status = wait_check(t, request);

    if (status != TUTTI_OK || *request == TUTTI_REQUEST_NULL) {
        return status;
    }
    driver_enter(t);
    status = call_wait(t, request, timeout_ns);
    driver_leave(t);
    return status;
}

tutti_status tutti_test(tutti *t, tutti_request *request)
{
    struct wait wait;
    tutti_status status = test_check(t, request);

    if (status == TUTTI_OK) {
        status = wait_prepare(t, &wait, request, 1);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (*request == TUTTI_REQUEST_NULL) {
        driver_poke(t);
        return TUTTI_OK;
    }
    if (!wait_is_over(&wait)) {
        driver_poke(t);
    }
    return wait_is_over(&wait) ? consume_one(t, request) : TUTTI_AGAIN;
}

void wait_note(struct error *first, tutti_status status)
{
    if (status != TUTTI_OK &&
            (first->status == TUTTI_OK ||
                    (first->status == TUTTI_ERR_TIMEOUT &&
                            status != TUTTI_ERR_TIMEOUT))) {
        error_fill(first, status, -1, "%s", tutti_last_error());
    }
}

void wait_consume(tutti *t, size_t count, tutti_request *requests,
        tutti_status *statuses, struct error *first)
{
    struct spent spent = { 0 };

    for (size_t i = 0; i < count; i++) {
        tutti_status status = TUTTI_OK;

        if (requests[i] != TUTTI_REQUEST_NULL) {
            status = consume(t, &requests[i], &spent);
        }
        if (statuses != NULL) {
            statuses[i] = status;
        }
        wait_note(first, status);
    }
    put_back(t, &spent);
}

tutti_status tutti_wait_all(tutti *t, size_t n, tutti_request *requests,
        int64_t timeout_ns, tutti_status *statuses)
{
    struct wait wait;
    struct error first;
    int64_t deadline;
    const tutti_status status = wait_check(t, n > 0 ? (void *)requests : (void *)t);

    if (status != TUTTI_OK) {
        return status;
    }
    first.status = TUTTI_OK;
    deadline = wait_deadline(timeout_ns);
    driver_enter(t);
    for (size_t at = 0; at < n; at += WAIT_CHUNK) {
        const size_t count = n - at < WAIT_CHUNK ? n - at : WAIT_CHUNK;

        /* Unknown requests count as over here and are reported when consumed. */
        (void)wait_prepare(t, &wait, requests + at, count);
        wait_until(t, &wait, deadline);
        wait_consume(t, count, requests + at, statuses != NULL ? statuses + at : NULL,
                &first);
    }
    driver_leave(t);
    return first.status == TUTTI_OK ? TUTTI_OK : error_raise(&first);
}

tutti_status tutti_cancel(tutti *t, tutti_request request)
{
    struct operation *operation;
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    operation = operation_find(&t->work.operations, request);
    if (operation == NULL) {
        status = unknown(request);
    } else if (operation_is_done(operation)) {
        status = error_set(TUTTI_ERR_INVALID,
                "request %" PRIu64
                " has finished and can no longer be cancelled: wait for it",
                request);
    } else {
        operation_ask_cancel(operation, request);
        /* Pairs with the engine's acquire: it finds the operation when it looks. */
        atomic_store_explicit(&t->engine.cancels_pending, 1, memory_order_release);
    }
    pthread_mutex_unlock(&t->lock);
    if (status == TUTTI_OK) {
        context_notify(t, 0);
    }
    return status;
}
