/*
 * Differences and shares of the counters of plans.
 */
#include "bench/core/planned.h"

#include <math.h>
#include <stdio.h>

void bench_planned_add(
        struct bench_planned *sum, const tutti_stats *before, const tutti_stats *after)
{
    sum->completed += (double)(after->completed - before->completed);
    sum->planned += (double)(after->planned - before->planned);
    sum->planned_steps += (double)(after->planned_steps - before->planned_steps);
    sum->slow_steps += (double)(after->slow_steps - before->slow_steps);
    sum->plan_exits += (double)(after->plan_exits - before->plan_exits);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

double bench_planned_share(const struct bench_planned *planned)
{
    return share(planned->planned, planned->completed);
}

void bench_planned_text(
        const struct bench_planned *planned, char text[BENCH_PLANNED_TEXT_MAX])
{
    const double of_all = bench_planned_share(planned);

    if (isnan(of_all)) {
        (void)snprintf(text, BENCH_PLANNED_TEXT_MAX, "-");
    } else {
        (void)snprintf(text, BENCH_PLANNED_TEXT_MAX, "%.2f", of_all);
    }
}

void bench_planned_to_json(struct bench_json *json, const struct bench_planned *planned)
{
    bench_json_number(json, "planned", bench_planned_share(planned));
    bench_json_number(json, "planned_steps",
            share(planned->planned_steps,
                    planned->planned_steps + planned->slow_steps));
    bench_json_integer(json, "plan_exits", (int64_t)planned->plan_exits);
}
