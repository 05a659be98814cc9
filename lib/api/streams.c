/*
 * Waiting on streams.
 */
#include "api/call.h"
#include "api/wait.h"
#include "base/faults.h"
#include "run/complete_device.h"
#include "run/context.h"
#include "run/driver.h"
#include "run/failure.h"

/* The events of a wait, and what became of them. */
struct stream_wait {
    tutti_stream stream;
    struct device_event *events[WAIT_CHUNK]; /* a reference each; NULL: not issued    */
    bool stays[WAIT_CHUNK]; /* not over, and not handed over: the request stays    */
    tutti_status status; /* of those that stay; TUTTI_OK: none does                */
};

/* Tensors of one batch have one event, and mostly stand together. */
static void follow(tutti *t, struct stream_wait *on, size_t count)
{
    const struct device_event *last = NULL;

    for (size_t i = 0; i < count && on->status == TUTTI_OK; i++) {
        if (on->events[i] != NULL && on->events[i] != last) {
            on->status = t->device.follow(t->device.state, on->stream, on->events[i]);
            last = on->events[i];
        }
    }
}

/*
 * The stream waits for what is issued by now, which is done for the host then. No lock is
 * held while the driver is called; the engine may end the same operations meanwhile.
 */
static void hand_over(tutti *t, struct wait *wait, struct stream_wait *on)
{
    complete_events(t, wait->operations, wait->requests, on->events, wait->count);
    follow(t, on, wait->count);
    on->status = failure_of_device(t, on->status);
    if (on->status == TUTTI_OK) {
        complete_stream(t, wait->operations, wait->requests, on->events, wait->count);
    }
    for (size_t i = 0; i < wait->count; i++) {
        on->stays[i] = on->status != TUTTI_OK && on->events[i] != NULL;
        t->device.release(t->device.state, on->events[i]);
    }
}

static bool has_failed(const tutti *t)
{
    /* Pairs with failure_set(). */
    return atomic_load_explicit(&t->failure.is_set, memory_order_acquire) != 0;
}

/*
 * After a failure no stream waits for anything. What the device still has stays with its
 * request, by which the host learns when its memory is free.
 */
static void keep(tutti *t, const struct wait *wait, struct stream_wait *on)
{
    for (size_t i = 0; i < wait->count; i++) {
        const struct operation *operation = wait->operations[i];

        on->stays[i] = operation != NULL && operation_is_on_device(operation) &&
                !operation_is_over(operation, wait->requests[i]);
        if (on->stays[i]) {
            on->status = context_check(t);
        }
    }
}

/*
 * Requests that are neither over nor handed over stay valid. The thread's last error says
 * why.
 */
static void consume_others(tutti *t, const struct stream_wait *on, size_t count,
        tutti_request *requests, tutti_status *statuses, struct error *first)
{
    struct error staying;

    error_fill(&staying, on->status, t->rank, "%s", tutti_last_error());
    for (size_t i = 0; i < count; i++) {
        if (!on->stays[i]) {
            wait_consume(
                    t, 1, requests + i, statuses != NULL ? statuses + i : NULL, first);
            continue;
        }
        if (statuses != NULL) {
            statuses[i] = on->status;
        }
        wait_note(first, error_raise(&staying));
    }
}

/* The bug: the stream goes on without what is not issued yet. */
static void forget_unissued(struct wait *wait, tutti_request *requests)
{
    for (size_t i = 0; i < wait->count; i++) {
        if (wait->operations[i] != NULL &&
                !operation_is_over_or_issued(wait->operations[i], wait->requests[i])) {
            wait->operations[i] = NULL;
            requests[i] = TUTTI_REQUEST_NULL;
        }
    }
}

/*
 * With issue=caller the program's own collectives between submission and this call were
 * launched first, so they must run first. NCCL's kernels wait for other ranks while they
 * hold the device, and the device does not keep the order in which the host launched kernels
 * of different streams. A stream that the fence refuses is refused again when it must wait.
 */
static void keep_place(tutti *t, const struct wait *wait, tutti_stream stream)
{
    bool is_issued = true;

    if (t->config.issue != CONFIG_ISSUE_CALLER || t->device.fence == NULL) {
        return;
    }
    for (size_t i = 0; i < wait->count && is_issued; i++) {
        is_issued = wait->operations[i] == NULL ||
                operation_is_over_or_issued(wait->operations[i], wait->requests[i]);
    }
    if (!is_issued) {
        (void)t->device.fence(t->device.state, stream);
    }
}

static void wait_chunk(tutti *t, struct stream_wait *on, struct wait *wait,
        int64_t deadline_ns, tutti_request *requests)
{
    wait->issued = true;
    if (FAULT(WAIT_STREAM_BEFORE_ISSUE)) {
        forget_unissued(wait, requests);
    }
    if (!has_failed(t)) {
        keep_place(t, wait, on->stream);
    }
    wait_until(t, wait, deadline_ns);
    if (has_failed(t)) {
        keep(t, wait, on);
    } else if (t->device.state != NULL) {
        hand_over(t, wait, on);
    }
}

tutti_status tutti_wait_stream_all(tutti *t, size_t n, tutti_request *requests,
        tutti_stream stream, int64_t timeout_ns, tutti_status *statuses)
{
    struct error first;
    struct wait wait;
    int64_t deadline;
    const tutti_status status = wait_check(t, n > 0 ? (void *)requests : (void *)t);

    if (status != TUTTI_OK) {
        return status;
    }
    first.status = TUTTI_OK;
    deadline = wait_deadline(timeout_ns);
    driver_enter(t);
    for (size_t at = 0; at < n; at += WAIT_CHUNK) {
        struct stream_wait on = { .stream = stream, .status = TUTTI_OK };
        const size_t count = n - at < WAIT_CHUNK ? n - at : WAIT_CHUNK;
        tutti_status *const its = statuses != NULL ? statuses + at : NULL;

        /* Unknown requests count as over here and are reported when consumed. */
        (void)wait_prepare(t, &wait, requests + at, count);
        wait_chunk(t, &on, &wait, deadline, requests + at);
        if (on.status == TUTTI_OK) {
            wait_consume(t, count, requests + at, its, &first);
        } else {
            consume_others(t, &on, count, requests + at, its, &first);
        }
    }
    driver_leave(t);
    return first.status == TUTTI_OK ? TUTTI_OK : error_raise(&first);
}

tutti_status tutti_wait_stream(
        tutti *t, tutti_request *request, tutti_stream stream, int64_t timeout_ns)
{
    tutti_status status = wait_check(t, request);

    if (status != TUTTI_OK || *request == TUTTI_REQUEST_NULL) {
        return status;
    }
    return tutti_wait_stream_all(t, 1, request, stream, timeout_ns, NULL);
}
