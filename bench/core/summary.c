/*
 * Order statistics by sorting.
 */
#include "bench/core/summary.h"

#include <stdlib.h>

#include "bench/core/collective.h"

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

struct bench_summary bench_summarise(double *samples, size_t count)
{
    struct bench_summary summary = { .min = 0 };
    double sum = 0;

    if (count == 0) {
        return summary;
    }
    qsort(samples, count, sizeof *samples, compare_doubles);
    for (size_t i = 0; i < count; i++) {
        sum += samples[i];
    }
    summary.min = samples[0];
    summary.median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    summary.p99 = samples[count - 1 - count / 100];
    summary.mean = sum / (double)count;
    summary.max = samples[count - 1];
    return summary;
}

double bench_algorithm_bandwidth(uint64_t bytes, double time_us)
{
    return time_us > 0 ? (double)bytes / time_us / 1e3 : 0;
}

double bench_bus_factor(tutti_collective collective, int ranks)
{
    const double others = (double)(ranks - 1) / ranks;

    if (collective == TUTTI_ALLREDUCE) {
        return 2 * others;
    }
    return bench_has_parts(collective) ? others : 1;
}
