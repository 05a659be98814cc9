/*
 * A gradient's way through a step: its collectives, clipping, and who gets it.
 *
 * The norm is taken of each gradient when it is averaged, while others are in flight. Scaling is
 * left to the sink, or is one pass in the steps that clip.
 */
#include "reducer/gradient.h"

#include <math.h>
#include <stdio.h>

#include "error.h"
#include "reducer/elements.h"

static tutti_request *request_of(const struct gradient *gradient)
{
    tutti_reducer *reducer = gradient->reducer;

    return reducer->calls.gradient != NULL
            ? NULL
            : &reducer->requests[gradient - reducer->gradients];
}

/* A submission's status, and TUTTI_AGAIN instead of success. */
static tutti_status in_flight(tutti_status status)
{
    return status == TUTTI_OK ? TUTTI_AGAIN : status;
}

static void count_bytes(struct gradient *gradient, int64_t count, tutti_dtype dtype)
{
    gradient->sums.sent_bytes += count * (int64_t)tutti_dtype_size(dtype);
}

static void *own_part(const struct gradient *gradient, void *elements)
{
    return elements_at(gradient->param.dtype, elements, gradient->part_first);
}

/* -------------------------------------------------------------- collectives */

/* The collective that was registered: the whole reduction, or its first half. */
static tutti_status submit_sum(struct gradient *gradient)
{
    tutti_reducer *reducer = gradient->reducer;
    void *input = gradient->param.gradient;

    count_bytes(gradient, gradient->param.count, gradient->param.dtype);
    return in_flight(tutti_submit(reducer->t, gradient->sum, input,
            gradient->scattered ? own_part(gradient, input) : input, reducer->step,
            reducer->calls.gradient, gradient, request_of(gradient)));
}

/* Submits the gathering of a value; TUTTI_AGAIN. */
static tutti_status gather(struct gradient *gradient)
{
    tutti_reducer *reducer = gradient->reducer;
    void *value = gradient->param.value;

    count_bytes(gradient, gradient->part_count, gradient->param.dtype);
    atomic_store(&gradient->phase, GRADIENT_GATHERING);
    return in_flight(
            tutti_submit(reducer->t, gradient->gather, own_part(gradient, value), value,
                    reducer->step, NULL, NULL, request_of(gradient)));
}

/* No parameter's: those have a dot behind the prefix. */
static void stage_name(struct gradient *gradient, char name[TENSOR_NAME_SIZE])
{
    (void)snprintf(name, TENSOR_NAME_SIZE, "%s:%d.%s", gradient->reducer->prefix,
            gradient->stage++, gradient->name);
}

/* What a compressor asks for. */
static tutti_status submit_exchange(
        struct gradient *gradient, const tutti_exchange *next)
{
    tutti_reducer *reducer = gradient->reducer;
    tutti_request *request = request_of(gradient);
    const tutti_options options =
            step_options(reducer, reducer->calls.gradient, gradient);
    char name[TENSOR_NAME_SIZE];

    stage_name(gradient, name);
    if (next->collective == TUTTI_ALLREDUCE) {
        return tutti_allreduce_async(reducer->t, name, next->input, next->output,
                next->count, next->dtype, next->op, &options, request);
    }
    if (next->collective == TUTTI_ALLGATHER) {
        return tutti_allgather_async(reducer->t, name, next->input, next->output,
                next->count, next->row_count, next->rows_of, next->dtype, &options,
                request);
    }
    if (next->collective == TUTTI_ALLTOALL) {
        return tutti_alltoall_async(reducer->t, name, next->input, next->output,
                next->count, next->row_count, next->rows_of, next->recv_rows,
                next->dtype, &options, request);
    }
    return error_set(TUTTI_ERR_INVALID,
            "compressor \"%s\" of gradient \"%s\" asks for %s; allreduce, allgather "
            "and alltoall are possible",
            gradient->compressor->name, gradient->name,
            tutti_collective_name(next->collective));
}

/* Runs the next stage of a compressor; TUTTI_OK: the gradient is averaged. */
static tutti_status advance(struct gradient *gradient)
{
    tutti_exchange next = { .op = TUTTI_SUM };
    tutti_status status;

    if (gradient->compressor == NULL || gradient->stage == STAGES_DONE) {
        return TUTTI_OK;
    }
    status = gradient->compressor->stage(
            gradient->compression, gradient->stage, gradient->param.gradient, &next);
    gradient->sums.error_squared += next.error_squared;
    gradient->sums.norm_squared += next.norm_squared;
    if (status == TUTTI_AGAIN) {
        count_bytes(gradient, next.count * next.row_count, next.dtype);
        return in_flight(submit_exchange(gradient, &next));
    }
    gradient->stage = STAGES_DONE;
    return status;
}

/* The engine calls back, and not the thread that marks: the callback may mark, too. */
static tutti_status submit_nothing(struct gradient *gradient)
{
    const tutti_reducer *reducer = gradient->reducer;
    const tutti_options options =
            step_options(reducer, reducer->calls.gradient, gradient);
    char name[TENSOR_NAME_SIZE];

    gradient->stage = 0;
    stage_name(gradient, name);
    gradient->stage = STAGES_DONE;
    return tutti_barrier_async(reducer->t, name, &options, NULL);
}

tutti_status gradient_submit(struct gradient *gradient, tutti_stream stream)
{
    const tutti_reducer *reducer = gradient->reducer;
    const tutti_param *param = &gradient->param;
    tutti_status status = TUTTI_OK;

    if (!gradient->sums.taken && gradient->compressor != NULL &&
            reducer->options.accumulate > 1) {
        elements_scale(param->dtype, param->gradient, param->count,
                1.0 / reducer->options.accumulate);
    }
    gradient->sums = (struct gradient_sums){ .taken = true };
    if (gradient->stream != stream) {
        gradient_unregister(gradient); /* a registration is for one stream */
        gradient->stream = stream;
    }
    if (!gradient->registered) {
        status = gradient_register(gradient);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    gradient->stage = 0;
    /* before the submission: a callback may run at once */
    atomic_store(&gradient->phase, GRADIENT_IN_FLIGHT);
    status = gradient->compressor == NULL ? submit_sum(gradient) : advance(gradient);
    if (status == TUTTI_OK && reducer->calls.gradient != NULL) {
        status = submit_nothing(gradient);
    }
    if (status != TUTTI_OK && status != TUTTI_AGAIN) {
        atomic_store(&gradient->phase, GRADIENT_OPEN);
        return status;
    }
    return TUTTI_OK;
}

/* ----------------------------------------------------------------- averaged */

static tutti_status give_to_sink(struct gradient *gradient, double scale)
{
    tutti_reducer *reducer = gradient->reducer;
    const struct reducer_sink *sink = &reducer->sink;
    const tutti_param *param = &gradient->param;
    const size_t i = (size_t)(gradient - reducer->gradients);
    tutti_status status = TUTTI_OK;

    if (!reducer->began) {
        status = sink->begin(sink->user, &reducer->report);
        reducer->began = status == TUTTI_OK;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (!sink->sharded) {
        sink->update(sink->user, i, 0, param->count, param->gradient, scale);
        return TUTTI_OK;
    }
    sink->update(sink->user, i, gradient->part_first, gradient->part_count,
            own_part(gradient, param->gradient), scale);
    return sink->gathers_late ? TUTTI_OK : gather(gradient);
}

/* Passes over what this rank holds: its part, or all. */
static void clamp(const struct gradient *gradient)
{
    const tutti_reducer *reducer = gradient->reducer;
    const tutti_param *param = &gradient->param;
    const bool all = reducer->whole_facts || !gradient->scattered;

    if (reducer->options.clip_value > 0) {
        elements_clamp(param->dtype,
                all ? param->gradient : own_part(gradient, param->gradient),
                all ? param->count : gradient->part_count,
                reducer->options.clip_value * reducer->loss_scale.factor);
    }
}

/* Norm and overflow are known, if they are asked for. */
static tutti_status deliver(struct gradient *gradient)
{
    const tutti_reducer *reducer = gradient->reducer;
    const tutti_param *param = &gradient->param;
    const double scale = reducer->report.clip_scale / reducer->loss_scale.factor;

    atomic_store(&gradient->phase, GRADIENT_DONE);
    if (reducer->report.overflow) {
        clamp(gradient); /* not yet where this rank saw it: all have the same */
        return TUTTI_OK;
    }
    if (reducer->sink.update != NULL) {
        return give_to_sink(gradient, scale);
    }
    if (scale < 1 || scale > 1) {
        elements_scale(param->dtype, param->gradient, param->count, scale);
    }
    return TUTTI_OK;
}

/* Takes the squares of what this rank looks at: its part, or all. */
static void take_squares(struct gradient *gradient)
{
    const tutti_param *param = &gradient->param;
    const bool whole = gradient->reducer->whole_facts;
    const void *elements =
            whole ? param->gradient : own_part(gradient, param->gradient);
    const int64_t count = whole ? param->count : gradient->part_count;
    struct gradient_sums *sums = &gradient->sums;

    sums->squares = elements_squares(param->dtype, elements, count);
    sums->scaled_squares =
            elements_scaled_squares(param->dtype, elements, count, sums->squares);
}

/* Infinity is looked for before it is clamped. */
static tutti_status averaged(struct gradient *gradient)
{
    const tutti_reducer *reducer = gradient->reducer;

    if (!reducer->needs_facts) {
        clamp(gradient);
        return deliver(gradient);
    }
    take_squares(gradient);
    if (reducer->options.clip_value > 0 && isfinite(gradient->sums.scaled_squares)) {
        clamp(gradient);
        take_squares(gradient);
    }
    atomic_store(&gradient->phase, GRADIENT_HELD);
    return TUTTI_OK;
}

bool gradient_continue(
        struct gradient *gradient, tutti_status status, const char *message)
{
    tutti_reducer *reducer = gradient->reducer;

    if (status != TUTTI_OK) {
        step_fail(reducer, status, message);
    } else if (atomic_load(&gradient->phase) != GRADIENT_GATHERING) {
        status = advance(gradient);
        if (status == TUTTI_OK) {
            status = averaged(gradient);
        }
        if (status == TUTTI_OK || status == TUTTI_AGAIN) {
            return status == TUTTI_AGAIN;
        }
        step_fail_alone(reducer, status);
    }
    atomic_store(&gradient->phase, GRADIENT_DONE);
    return false;
}

void gradients_deliver(tutti_reducer *reducer)
{
    for (size_t i = reducer->count; reducer->error == TUTTI_OK && i-- > 0;) {
        struct gradient *gradient = &reducer->gradients[i];
        tutti_status status;

        if (atomic_load(&gradient->phase) != GRADIENT_HELD) {
            continue;
        }
        status = deliver(gradient);
        if (status != TUTTI_OK && status != TUTTI_AGAIN) {
            step_fail_alone(reducer, status);
        }
    }
}

void gradients_end_sink(tutti_reducer *reducer)
{
    const struct reducer_sink *sink = &reducer->sink;
    const bool gathers = sink->sharded && sink->gathers_late;
    tutti_status status = TUTTI_OK;

    if (!reducer->began || reducer->error != TUTTI_OK) {
        return;
    }
    if (sink->end != NULL) {
        status = sink->end(sink->user);
    }
    for (size_t i = reducer->count; gathers && status == TUTTI_OK && i-- > 0;) {
        if (atomic_load(&reducer->gradients[i].phase) != GRADIENT_SKIPPED) {
            status = gather(&reducer->gradients[i]);
            status = status == TUTTI_AGAIN ? TUTTI_OK : status;
        }
    }
    if (status != TUTTI_OK) {
        step_fail_alone(reducer, status);
    }
}
