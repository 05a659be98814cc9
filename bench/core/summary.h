/*
 * Statistics over samples, and the bandwidth figures of nccl-tests.
 */
#ifndef TUTTI_BENCH_CORE_SUMMARY_H
#define TUTTI_BENCH_CORE_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** The samples' own unit. All 0 when there are none. */
struct bench_summary {
    double min;
    double median; /* mean of the middle two when their number is even */
    double p99; /* smallest sample that is at least 99 % of them */
    double mean;
    double max;
    double low,
            high; /* interval that has the true median with 95 %; NaN if there is none */
};

enum {
    BENCH_INTERVAL_SAMPLES = 6 /* that an interval needs */
};

/**
 * Sorts the samples and summarises them. The interval is between two of the samples and
 * supposes nothing about how they are distributed, only that they are independent: a sample
 * is below the true median as often as above, so how many are is binomial (H. A. David and
 * H. N. Nagaraja, Order Statistics, 3rd ed., 7.1; J.-Y. Le Boudec, Performance Evaluation of
 * Computer and Communication Systems, 2.2.2).
 */
struct bench_summary bench_summarise(double *samples, size_t count);

/** Bytes per nanosecond = 1e9 bytes per second; 0 when the time is 0. */
double bench_algorithm_bandwidth(uint64_t bytes, double time_us);
/**
 * What a link carries per algorithm bandwidth: 2(n-1)/n for allreduce, (n-1)/n where ranks
 * have parts of the tensor, of which one stays at home; else 1.
 */
double bench_bus_factor(tutti_collective collective, int ranks);

#endif
