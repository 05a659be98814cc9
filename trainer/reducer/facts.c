/*
 * Norm and overflow. Each rank has the squares of its part of each gradient, and a small allreduce
 * adds them up; a sum that is not finite is the overflow, and a second one finds its name. Squares
 * of float64 may be infinite without one, so there are two sums, and the scaled one tells. Where
 * not all ranks are there (uneven data), or the bits may not depend on their number (shards), every
 * rank has the squares of all elements.
 */
#include <math.h>
#include <stddef.h>

#include "reducer/gradient.h"

/* Adds up doubles or finds the least int64, unless all ranks have the same; TUTTI_AGAIN: it is in
   flight. */
static tutti_status reduce(tutti_reducer *reducer, const char *suffix, void *values,
        int64_t count, tutti_dtype dtype)
{
    return reducer->whole_facts
            ? TUTTI_OK
            : step_reduce(reducer, suffix, values, count, dtype,
                      dtype == TUTTI_FLOAT64 ? TUTTI_SUM : TUTTI_MIN);
}

static tutti_status reduce_squares(tutti_reducer *reducer)
{
    reducer->facts[0] = 0;
    reducer->facts[1] = 0;
    for (size_t i = 0; i < reducer->count; i++) {
        reducer->facts[0] += reducer->gradients[i].sums.squares;
        reducer->facts[1] += reducer->gradients[i].sums.scaled_squares;
    }
    return reduce(reducer, "norm", reducer->facts, 2, TUTTI_FLOAT64);
}

static tutti_status find_overflow(tutti_reducer *reducer)
{
    size_t i = 0;

    while (i < reducer->count && isfinite(reducer->gradients[i].sums.scaled_squares)) {
        i++;
    }
    reducer->overflow = (int64_t)i;
    return isfinite(reducer->facts[1])
            ? TUTTI_OK
            : reduce(reducer, "overflow", &reducer->overflow, 1, TUTTI_INT64);
}

/* The step counts as not done, so what compressors have kept of it is not theirs. */
static void undo_compression(tutti_reducer *reducer)
{
    for (size_t i = 0; i < reducer->count; i++) {
        const struct gradient *gradient = &reducer->gradients[i];
        const tutti_compressor *compressor = gradient->compressor;

        if (atomic_load(&gradient->phase) == GRADIENT_HELD && compressor != NULL &&
                compressor->size > offsetof(tutti_compressor, undo) &&
                compressor->undo != NULL) {
            compressor->undo(gradient->compression);
        }
    }
}

static tutti_status conclude(tutti_reducer *reducer)
{
    tutti_step_report *report = &reducer->report;

    report->norm = (isfinite(reducer->facts[0]) ? sqrt(reducer->facts[0])
                                                : sqrt(reducer->facts[1]) * 0x1p600) /
            reducer->loss_scale.factor;
    if (reducer->overflow < (int64_t)reducer->count) {
        report->overflow = true;
        report->overflow_name = reducer->gradients[reducer->overflow].name;
        undo_compression(reducer);
    } else if (reducer->options.clip_norm > 0 &&
            report->norm > reducer->options.clip_norm) {
        report->clip_scale = reducer->options.clip_norm / report->norm;
    }
    return TUTTI_OK;
}

tutti_status facts_advance(tutti_reducer *reducer)
{
    static tutti_status (*const stages[])(
            tutti_reducer *) = { reduce_squares, find_overflow, conclude };
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && reducer->facts_stage < 3) {
        status = stages[reducer->facts_stage++](reducer);
    }
    return status;
}
