/*
 * Steps that end with a wait; gradients that a rank left out; ranks that have no more data.
 */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "reducer/gradient.h"
#include "state/agree.h"

/* ------------------------------------------------------------ what is missing */

static tutti_status check_complete(const tutti_reducer *reducer)
{
    size_t missing = 0;
    size_t first = reducer->count;

    for (size_t i = reducer->count; i-- > 0;) {
        const struct gradient *gradient = &reducer->gradients[i];

        if (atomic_load(&gradient->marks) < reducer->marks ||
                (reducer->marks > 0 &&
                        atomic_load(&gradient->phase) == GRADIENT_OPEN)) {
            missing++;
            first = i;
        }
    }
    if (missing == 0) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "tutti_reducer_wait: gradient \"%s\" (parameter %zu) has %d of %d marks "
            "in step %lld on rank %d, and %zu others lack theirs; mark them with "
            "tutti_reducer_ready() and wait again, or set options.unused",
            reducer->gradients[first].name, first,
            atomic_load(&reducer->gradients[first].marks), reducer->marks,
            (long long)reducer->step, reducer->rank, missing - 1);
}

/* Which gradients any rank has; the step number tells ranks in different steps apart. */
static tutti_status agree_on_used(tutti_reducer *reducer)
{
    const tutti_options options = step_options(reducer, NULL, NULL);
    char name[TENSOR_NAME_SIZE];

    for (size_t i = 0; i < reducer->count; i++) {
        reducer->used[i] = atomic_load(&reducer->gradients[i].marks) > 0 ? 1 : 0;
    }
    (void)snprintf(name, sizeof name, "%s:used", reducer->prefix);
    return group_heard(reducer->t,
            tutti_allreduce(reducer->t, name, reducer->used, reducer->used,
                    (int64_t)reducer->count, TUTTI_UINT8, TUTTI_MAX, &options));
}

/* Submits what this rank left out, as zeros if it never marked it. */
static void submit_the_rest(tutti_reducer *reducer)
{
    const bool unused = reducer->options.unused;
    tutti_status status = unused ? agree_on_used(reducer) : TUTTI_OK;

    if (status != TUTTI_OK) {
        step_fail(reducer, status, tutti_last_error());
        /* what another rank has in flight ends when all submit it */
        memset(reducer->used, 1, reducer->count);
        status = step_is_broken(reducer) ? status : TUTTI_OK;
    }
    for (size_t i = reducer->count; status == TUTTI_OK && i-- > 0;) {
        struct gradient *gradient = &reducer->gradients[i];
        const tutti_param *param = &gradient->param;

        if (atomic_load(&gradient->phase) != GRADIENT_OPEN) {
            continue;
        }
        if (unused && atomic_load(&gradient->marks) == 0) {
            memset(param->gradient, 0,
                    (size_t)param->count * tutti_dtype_size(param->dtype));
        }
        if (unused && reducer->used[i] == 0) {
            atomic_store(&gradient->phase, GRADIENT_SKIPPED);
            continue;
        }
        status = gradient_submit(gradient, gradient->stream);
        if (status != TUTTI_OK) {
            step_fail_alone(reducer, status); /* what is in flight is waited for */
        }
    }
}

/* --------------------------------------------------------------------- wait */

/* Nothing but collectives of one stage, and nothing to do afterwards. */
static bool is_plain(const tutti_reducer *reducer)
{
    for (size_t i = 0; i < reducer->count; i++) {
        if (reducer->gradients[i].compressor != NULL) {
            return false;
        }
    }
    return reducer->sink.update == NULL && !reducer->needs_facts &&
            reducer->options.clip_value <= 0;
}

/* Waits for a request; an error is the step's. */
static tutti_status wait_for(tutti_reducer *reducer, tutti_request *request)
{
    const tutti_status status = tutti_wait(reducer->t, request, TUTTI_FOREVER);

    if (status != TUTTI_OK) {
        step_fail(reducer, status, tutti_last_error());
    }
    return status;
}

/* Waits for what is in flight of a gradient; true: another collective of it is in flight. */
static bool wait_for_gradient(tutti_reducer *reducer, size_t i)
{
    const int phase = atomic_load(&reducer->gradients[i].phase);
    tutti_status status;

    if (phase != GRADIENT_IN_FLIGHT && phase != GRADIENT_GATHERING) {
        return false;
    }
    status = wait_for(reducer, &reducer->requests[i]);
    return gradient_continue(&reducer->gradients[i], status, tutti_last_error());
}

/* Waits until no gradient is in flight, the last one first: it was submitted first. */
static void drain(tutti_reducer *reducer)
{
    bool again = true;

    while (again) {
        again = false;
        for (size_t i = reducer->count; i-- > 0;) {
            again = wait_for_gradient(reducer, i) || again;
        }
    }
}

static void drain_plain(tutti_reducer *reducer, bool on_stream, tutti_stream stream)
{
    const tutti_status status = on_stream
            ? tutti_wait_stream_all(reducer->t, reducer->count, reducer->requests,
                      stream, TUTTI_FOREVER, NULL)
            : tutti_wait_all(reducer->t, reducer->count, reducer->requests,
                      TUTTI_FOREVER, NULL);

    if (status != TUTTI_OK) {
        step_fail(reducer, status, tutti_last_error());
    }
}

static void go_through(
        tutti_reducer *reducer, tutti_status (*advance)(tutti_reducer *reducer))
{
    while (reducer->error == TUTTI_OK && advance(reducer) == TUTTI_AGAIN) {
        (void)wait_for(reducer, &reducer->facts_request);
    }
}

static void finish(tutti_reducer *reducer, bool on_stream, tutti_stream stream)
{
    if (is_plain(reducer)) {
        drain_plain(reducer, on_stream, stream);
    } else {
        drain(reducer);
        if (reducer->needs_facts) {
            go_through(reducer, facts_advance);
        }
        gradients_deliver(reducer);
        drain(reducer);
        gradients_end_sink(reducer);
        drain(reducer);
    }
    if (!on_stream) {
        go_through(reducer, verify_advance);
    }
    for (struct average *at = reducer->averages; at != NULL; at = at->next) {
        if (at->value != NULL) {
            average_finish(at, wait_for(reducer, &at->request));
        }
    }
}

static tutti_status check_wait(tutti_reducer *reducer, const tutti_step_report *report)
{
    tutti_status status = TUTTI_OK;

    if (reducer == NULL || (report != NULL && report->size == 0)) {
        return error_set(TUTTI_ERR_INVALID, "tutti_reducer_wait: %s",
                reducer == NULL ? "the reducer is NULL" : "report->size is 0");
    }
    if (reducer->callback != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_reducer_wait: steps end with the callback of "
                "tutti_reducer_set_callback()");
    }
    if (!reducer->options.unused && !step_is_broken(reducer)) {
        status = check_complete(reducer);
    }
    if (status != TUTTI_OK && has_context_failed(reducer->t)) {
        /* what is missing cannot come any more */
        step_fail(reducer, TUTTI_ERR_CONTEXT_FAILED, tutti_last_error());
        status = TUTTI_OK;
    }
    return status;
}

static tutti_status end_step(tutti_reducer *reducer, bool on_stream,
        tutti_stream stream, tutti_step_report *report)
{
    const int64_t begin = clock_ns(CLOCK_MONOTONIC);
    tutti_status status = check_wait(reducer, report);

    if (status != TUTTI_OK) {
        return status;
    }
    if (atomic_exchange(&reducer->ending, true)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_reducer_wait: another thread waits for step %lld",
                (long long)reducer->step);
    }
    step_begin_report(reducer);
    if ((reducer->options.unused || reducer->marks == 0) && !step_is_broken(reducer)) {
        submit_the_rest(reducer);
    }
    finish(reducer, on_stream, stream);
    reducer->report.wait_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    status = step_end(reducer, report);
    atomic_store(&reducer->ending, false);
    return status;
}

void reducer_give_up(tutti_reducer *reducer)
{
    if (reducer_in_step(reducer)) {
        step_fail(reducer, TUTTI_ERR_CONTEXT_FAILED, tutti_last_error());
        (void)end_step(reducer, false, NULL, NULL);
    }
}

tutti_status tutti_reducer_wait(tutti_reducer *reducer, tutti_step_report *report)
{
    return end_step(reducer, false, NULL, report);
}

tutti_status tutti_reducer_wait_stream(
        tutti_reducer *reducer, tutti_stream stream, tutti_step_report *report)
{
    if (reducer != NULL && !is_plain(reducer)) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "tutti_reducer_wait_stream: compression, clipping, overflow and "
                "optimizers need the gradients on the host; use tutti_reducer_wait()");
    }
    return end_step(reducer, true, stream, report);
}

/* --------------------------------------------------------------------- join */

/* What ranks that joined early have missed, from the one that joined last. */
static tutti_status hand_over(
        tutti_reducer *reducer, const tutti_options *options, int last)
{
    const struct reducer_sink *sink = &reducer->sink;
    struct loss_scale *scale = &reducer->loss_scale;
    double now[3] = { (double)reducer->step, scale->factor, scale->good_steps };
    char name[TENSOR_NAME_SIZE];
    tutti_status status;

    (void)snprintf(name, sizeof name, "%s:joined", reducer->prefix);
    status = group_heard(reducer->t,
            tutti_broadcast(reducer->t, name, now, 3, TUTTI_FLOAT64, last, options));
    if (status != TUTTI_OK) {
        return status;
    }
    reducer->step = (int64_t)now[0];
    *scale = (struct loss_scale){ .factor = now[1], .good_steps = now[2] };
    step_begin_report(reducer);
    return sink->joined == NULL ? TUTTI_OK : sink->joined(sink->user, last);
}

tutti_status tutti_reducer_join(tutti_reducer *reducer, int *last)
{
    tutti_options options;
    tutti_status status;
    int root = 0;

    if (reducer == NULL || !reducer->options.uneven || reducer_in_step(reducer)) {
        return error_set(TUTTI_ERR_INVALID, "tutti_reducer_join: %s",
                reducer == NULL                   ? "the reducer is NULL"
                        : reducer->options.uneven ? "a step is under way"
                                                  : "options.uneven is not set");
    }
    tutti_options_default(&options);
    options.process_set = reducer->options.process_set;
    status = group_heard(reducer->t, tutti_join(reducer->t, &options, &root));
    if (status == TUTTI_OK) {
        status = hand_over(reducer, &options, root);
    }
    if (status == TUTTI_OK && last != NULL) {
        *last = root;
    }
    return status;
}
