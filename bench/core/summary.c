/*
 * Order statistics by sorting.
 */
#include "bench/core/summary.h"

#include <math.h>
#include <stdlib.h>

#include "bench/core/collective.h"

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

enum {
    EXACT_SAMPLES = 70 /* for more, the binomial distribution is taken as normal */
};

/*
 * How many samples at each end are outside of the interval: the most with which the true
 * median is outside, too, in no more than 5 % of all cases. -1 when it may be even outside of
 * the whole range.
 */
static long samples_outside(size_t count)
{
    const double n = (double)count;
    double chance = exp2(-n); /* that k samples are below the median */
    double tail = chance;
    long k = 0;

    if (count > EXACT_SAMPLES) {
        return (long)(n / 2 - 0.98 * sqrt(n)) - 1;
    }
    for (; 2 * tail <= 0.05; k++) {
        chance *= (n - (double)k) / (double)(k + 1);
        tail += chance;
    }
    return k - 1;
}

struct bench_summary bench_summarise(double *samples, size_t count)
{
    struct bench_summary summary = { .low = NAN, .high = NAN };
    double sum = 0;
    long outside;

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
    outside = samples_outside(count);
    if (outside >= 0) {
        summary.low = samples[outside];
        summary.high = samples[count - 1 - (size_t)outside];
    }
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
