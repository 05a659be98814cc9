/*
 * What the files about a step share; its report and its end.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "options.h"
#include "reducer/gradient.h"

enum {
    GOOD_STEPS = 2000 /* until the loss scale is doubled */
};

tutti_options step_options(
        const tutti_reducer *reducer, tutti_callback callback, void *user)
{
    tutti_options options;

    tutti_options_default(&options);
    options.process_set = reducer->options.process_set;
    options.step = reducer->step;
    options.callback = callback;
    options.user = user;
    return options;
}

tutti_status step_reduce(tutti_reducer *reducer, const char *suffix, void *values,
        int64_t count, tutti_dtype dtype, tutti_reduce_op op)
{
    const tutti_options options = step_options(reducer, reducer->calls.facts, reducer);
    char name[TENSOR_NAME_SIZE];
    tutti_status status;

    (void)snprintf(name, sizeof name, "%s:%s", reducer->prefix, suffix);
    status = tutti_allreduce_async(reducer->t, name, values, values, count, dtype, op,
            &options, reducer->calls.facts != NULL ? NULL : &reducer->facts_request);
    if (status != TUTTI_OK) {
        step_fail_alone(reducer, status);
        return status;
    }
    return TUTTI_AGAIN;
}

/* With a callback, a step that is broken is over when all that was submitted has called back. */
bool reducer_in_step(tutti_reducer *reducer)
{
    size_t open = 0;
    bool began = false;

    for (size_t i = 0; i < reducer->count; i++) {
        const struct gradient *gradient = &reducer->gradients[i];

        open += atomic_load(&gradient->phase) == GRADIENT_OPEN ? 1 : 0;
        began = began || atomic_load(&gradient->marks) > 0;
    }
    if (reducer->callback != NULL && step_is_broken(reducer)) {
        return atomic_load(&reducer->left) > open;
    }
    for (const struct average *at = reducer->averages; at != NULL; at = at->next) {
        began = began || at->value != NULL;
    }
    return began;
}

void step_fail(tutti_reducer *reducer, tutti_status status, const char *text)
{
    (void)pthread_mutex_lock(&reducer->lock);
    if (reducer->error == TUTTI_OK) {
        reducer->error = status;
        (void)snprintf(reducer->error_text, sizeof reducer->error_text, "%s", text);
    }
    (void)pthread_mutex_unlock(&reducer->lock);
}

bool step_is_broken(tutti_reducer *reducer)
{
    tutti_status error;

    (void)pthread_mutex_lock(&reducer->lock);
    error = reducer->error;
    (void)pthread_mutex_unlock(&reducer->lock);
    /* Who has no memory has ended the job, by step_fail_alone(). */
    return error == TUTTI_ERR_CONTEXT_FAILED || error == TUTTI_ERR_FINALIZED ||
            error == TUTTI_ERR_NO_MEMORY;
}

void step_fail_alone(tutti_reducer *reducer, tutti_status status)
{
    step_fail(reducer, status, tutti_last_error());
    if (status != TUTTI_ERR_CONTEXT_FAILED && reducer->ranks > 1) {
        (void)tutti_abort(reducer->t, reducer->error_text);
    }
}

void step_begin_report(tutti_reducer *reducer)
{
    reducer->report = (tutti_step_report){
        .size = sizeof reducer->report,
        .step = reducer->step,
        .clip_scale = 1,
        .loss_scale = reducer->loss_scale.factor,
    };
}

static void adapt_loss_scale(tutti_reducer *reducer)
{
    struct loss_scale *scale = &reducer->loss_scale;

    if (reducer->options.loss_scale <= 0) {
        return;
    }
    if (reducer->report.overflow) {
        *scale = (struct loss_scale){ .factor = scale->factor / 2 };
    } else if (++scale->good_steps >= GOOD_STEPS) {
        *scale = (struct loss_scale){ .factor = scale->factor * 2 };
    }
}

static void complete_report(tutti_reducer *reducer)
{
    tutti_step_report *report = &reducer->report;
    double error = 0;
    double norm = 0;

    for (size_t i = 0; i < reducer->count; i++) {
        const struct gradient *gradient = &reducer->gradients[i];

        report->gradient_bytes += gradient->param.count *
                (int64_t)tutti_dtype_size(gradient->param.dtype);
        report->unused += atomic_load(&gradient->phase) == GRADIENT_SKIPPED ? 1 : 0;
        report->sent_bytes += gradient->sums.sent_bytes;
        error += gradient->sums.error_squared;
        norm += gradient->sums.norm_squared;
    }
    report->compression_error = norm > 0 ? sqrt(error / norm) : 0;
}

static void give_report(const tutti_reducer *reducer, tutti_step_report *report)
{
    const size_t size = report->size;

    options_give(report, size, &reducer->last_report, sizeof reducer->last_report);
    report->size = size;
}

tutti_status tutti_reducer_report(
        const tutti_reducer *reducer, tutti_step_report *report)
{
    if (reducer == NULL || report == NULL || report->size == 0 ||
            reducer->last_report.size == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_reducer_report: the reducer or the report is NULL, report->size "
                "is 0, or no step has ended");
    }
    give_report(reducer, report);
    return TUTTI_OK;
}

tutti_status step_end(tutti_reducer *reducer, tutti_step_report *report)
{
    const tutti_status status = reducer->error;

    complete_report(reducer);
    reducer->last_report = reducer->report;
    if (report != NULL) {
        give_report(reducer, report);
    }
    if (status == TUTTI_OK) {
        adapt_loss_scale(reducer);
    }
    for (size_t i = 0; i < reducer->count; i++) {
        struct gradient *gradient = &reducer->gradients[i];

        atomic_store(&gradient->marks, 0);
        atomic_store(&gradient->phase, GRADIENT_OPEN);
        gradient->sums = (struct gradient_sums){ .taken = false };
    }
    reducer->facts_stage = 0;
    reducer->verify_stage = 0;
    reducer->began = false;
    reducer->error = TUTTI_OK;
    reducer->step++;
    step_begin_report(reducer);
    if (status != TUTTI_OK) {
        return error_set(status, "%s", reducer->error_text);
    }
    return TUTTI_OK;
}
