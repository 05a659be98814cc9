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
};

/** Sorts the samples and summarises them. */
struct bench_summary bench_summarise(double *samples, size_t count);

/** Bytes per nanosecond = 1e9 bytes per second; 0 when the time is 0. */
double bench_algorithm_bandwidth(uint64_t bytes, double time_us);
/**
 * What a link carries per algorithm bandwidth: 2(n-1)/n for allreduce, (n-1)/n where ranks
 * have parts of the tensor, of which one stays at home; else 1.
 */
double bench_bus_factor(tutti_collective collective, int ranks);

#endif
