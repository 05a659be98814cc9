/*
 * What plans did during the timed part of a row, by the statistics of tutti.
 */
#ifndef TUTTI_BENCH_CORE_PLANNED_H
#define TUTTI_BENCH_CORE_PLANNED_H

#include <tutti/tutti.h>

#include "bench/core/jsonline.h"

/** Numbers, as doubles so that they can be summed over ranks. Zeroed is none. */
struct bench_planned {
    double completed; /* operations */
    double planned; /* of them, without negotiation */
    double planned_steps; /* iterations of a plan that ran in it */
    double slow_steps; /* iterations of a plan's tensors that did not */
    double plan_exits; /* times that a plan was left */
};

/** Adds what happened between two readings. */
void bench_planned_add(
        struct bench_planned *sum, const tutti_stats *before, const tutti_stats *after);

/** Planned operations / operations; NaN when there were none. */
double bench_planned_share(const struct bench_planned *planned);

#define BENCH_PLANNED_TEXT_MAX 16

/** The share for a table: "0.98", or "-" when there were no operations. */
void bench_planned_text(
        const struct bench_planned *planned, char text[BENCH_PLANNED_TEXT_MAX]);

/** Adds "planned" and "planned_steps", shares from 0 to 1 or null, and "plan_exits". */
void bench_planned_to_json(
        struct bench_json *json, const struct bench_planned *planned);

#endif
