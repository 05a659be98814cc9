/*
 * Waiting for requests and consuming them.
 */
#include <inttypes.h>

#include "api/call.h"
#include "api/wait.h"
#include "base/clock.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/failure.h"
#include "core/order.h"

static bool is_over(const struct wait *wait, size_t i)
{
    const struct work *work = wait->works[i];

    if (work == NULL) {
        return true;
    }
    if (!wait->issued) {
        return work_is_over(work, wait->requests[i]);
    }
    return work_is_over_or_issued(work, wait->requests[i]) ||
            (failure_lingers(wait->t) && work_is_on_device(work));
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
static bool holds_output(const struct work *work)
{
    return work->owns_output && work->status == TUTTI_OK;
}

/* Works of consumed requests that go back into the pool, over next. */
struct spent {
    struct work *works;
};

static void put_back(tutti *t, struct spent *spent)
{
    if (spent->works == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    while (spent->works != NULL) {
        struct work *work = spent->works;

        spent->works = work->next;
        work_put_back(&t->works, work);
    }
    pthread_mutex_unlock(&t->lock);
}

/*
 * True when a work is done; else the error says that it is not. The name is read under the
 * lock: without it the operation could end, and its name be forgotten.
 */
static bool check_done(tutti *t, const struct work *work)
{
    bool is_done = work_is_done(work);

    if (!is_done) {
        pthread_mutex_lock(&t->lock);
        is_done = work_is_done(work);
        if (!is_done && work_is_issued(work)) {
            (void)error_set(TUTTI_ERR_TIMEOUT,
                    "%s is issued, and not finished by the GPU of rank %d",
                    meta_collective_name(work->request.collective), t->rank);
        } else if (!is_done) {
            (void)error_set(TUTTI_ERR_TIMEOUT, "%s \"%s\" is not finished on rank %d",
                    meta_collective_name(work->request.collective), work->request.name,
                    t->rank);
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
    struct work *work = work_find(&t->works, *request);
    tutti_status status;

    if (work == NULL) {
        return unknown(*request);
    }
    if (!check_done(t, work)) {
        return TUTTI_ERR_TIMEOUT;
    }
    if (!work_claim(work, *request)) {
        return unknown(*request);
    }
    status = work->status;
    if (work->error != NULL) {
        (void)error_raise(work->error);
    } else if (status != TUTTI_OK) {
        (void)error_set(status, "%s", tutti_status_text(status));
    }
    if (holds_output(work)) {
        work_unclaim(work);
        return status;
    }
    *request = TUTTI_REQUEST_NULL;
    if (work_end(work)) {
        work->next = spent->works;
        spent->works = work;
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
        wait->works[i] = NULL;
        if (requests[i] == TUTTI_REQUEST_NULL) {
            continue;
        }
        wait->works[i] = work_find(&t->works, requests[i]);
        if (wait->works[i] == NULL && status == TUTTI_OK) {
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
static void demand(
        tutti *t, const struct wait *wait, void (*tell)(tutti *, struct work *))
{
    for (size_t i = 0; t->device.state != NULL && i < wait->count; i++) {
        if (wait->works[i] != NULL && work_is_of(wait->works[i], wait->requests[i])) {
            tell(t, wait->works[i]);
        }
    }
}

void wait_until(tutti *t, struct wait *wait, int64_t deadline_ns)
{
    int64_t begin;

    if (wait_is_over(wait)) {
        return;
    }
    begin = clock_ns();
    demand(t, wait, order_demand);
    driver_wait(t, wait_is_over, wait, deadline_ns);
    demand(t, wait, order_satisfied);
    counter_add(&t->counters.wait_ns, (uint64_t)(clock_ns() - begin));
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

tutti_status wait_check(tutti *t, const void *requests)
{
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (requests == NULL) {
        return error_set(TUTTI_ERR_INVALID, "the pointer to the request is NULL");
    }
    status = driver_may_wait(t);
    if (status == TUTTI_OK && group_is_open(t)) {
        status = error_set(TUTTI_ERR_INVALID,
                "waiting inside a group (rank %d); end it first", t->rank);
    }
    return status;
}

/* Rows that came from each member. */
static void copy_rows(const struct work *work, int64_t *rows_of)
{
    const struct meta *meta = &work->request.meta;
    const size_t row_bytes = (size_t)meta->row_count * tutti_dtype_size(meta->dtype);
    const int size = work->part_members;

    for (int i = 0; i < size; i++) {
        rows_of[i] = (int64_t)(work->parts[size + i].bytes / row_bytes);
    }
}

/* As consume_one(), but hands the output over. */
static tutti_status take_output(
        tutti *t, tutti_request *request, void **output, int64_t *rows_of)
{
    struct work *work = work_find(&t->works, *request);

    if (work != NULL && !work->owns_output) {
        return error_set(TUTTI_ERR_INVALID,
                "%s \"%s\" of rank %d has an output of the caller; there is nothing to "
                "take",
                meta_collective_name(work->request.collective), work->request.name,
                t->rank);
    }
    if (work == NULL || !work_is_done(work) || !holds_output(work)) {
        return consume_one(t, request);
    }
    if (!work_claim(work, *request)) {
        return unknown(*request);
    }
    *output = work->output;
    if (rows_of != NULL) {
        copy_rows(work, rows_of);
    }
    work->owns_output = false;
    work_unclaim(work);
    return consume_one(t, request);
}

/* Nothing is waited for when the request cannot have an output. */
static bool may_hold_output(tutti *t, tutti_request request)
{
    const struct work *work = work_find(&t->works, request);

    return work != NULL && work->owns_output;
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
    tutti_status status = wait_check(t, request);

    if (status != TUTTI_OK || *request == TUTTI_REQUEST_NULL) {
        return status;
    }
    status = wait_prepare(t, &wait, request, 1);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!wait_is_over(&wait)) {
        driver_poke(t);
    }
    return wait_is_over(&wait) ? consume_one(t, request) : TUTTI_AGAIN;
}

void wait_consume(tutti *t, size_t count, tutti_request *requests,
        tutti_status *statuses, struct wait_outcome *outcome)
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
        if (status == TUTTI_ERR_TIMEOUT) {
            outcome->timed_out = true;
        } else if (status != TUTTI_OK && outcome->first == TUTTI_OK) {
            outcome->first = status;
        }
    }
    put_back(t, &spent);
}

tutti_status wait_result(const struct wait_outcome *outcome)
{
    return outcome->first == TUTTI_OK && outcome->timed_out ? TUTTI_ERR_TIMEOUT
                                                            : outcome->first;
}

tutti_status tutti_wait_all(tutti *t, size_t n, tutti_request *requests,
        int64_t timeout_ns, tutti_status *statuses)
{
    struct wait wait;
    struct wait_outcome outcome = { .first = TUTTI_OK };
    int64_t deadline;
    const tutti_status status = wait_check(t, n > 0 ? (void *)requests : (void *)t);

    if (status != TUTTI_OK) {
        return status;
    }
    deadline = wait_deadline(timeout_ns);
    driver_enter(t);
    for (size_t at = 0; at < n; at += WAIT_CHUNK) {
        const size_t count = n - at < WAIT_CHUNK ? n - at : WAIT_CHUNK;

        /* Unknown requests count as over here and are reported when consumed. */
        (void)wait_prepare(t, &wait, requests + at, count);
        wait_until(t, &wait, deadline);
        wait_consume(t, count, requests + at, statuses != NULL ? statuses + at : NULL,
                &outcome);
    }
    driver_leave(t);
    return wait_result(&outcome);
}

tutti_status tutti_cancel(tutti *t, tutti_request request)
{
    struct work *work;
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    work = work_find(&t->works, request);
    if (work == NULL || work_is_done(work)) {
        status = unknown(request);
    } else {
        work_ask_cancel(work, request);
        /* Pairs with the engine's acquire: it finds the work when it looks. */
        atomic_store_explicit(&t->cancels_pending, 1, memory_order_release);
    }
    pthread_mutex_unlock(&t->lock);
    if (status == TUTTI_OK) {
        driver_notify(t);
    }
    return status;
}
