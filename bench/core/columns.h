/*
 * The table of nccl-tests: one row per size, out-of-place and in-place side by side, and
 * here a part for each of the comparisons: with raw MPI, with the limit, with tutti
 * without plans and with tutti when it is waited for.
 */
#ifndef TUTTI_BENCH_CORE_COLUMNS_H
#define TUTTI_BENCH_CORE_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** One side of a row. */
struct bench_cells {
    bool measured; /* false: the cells are left open */
    double time_us; /* per operation */
    double algbw; /* 1e9 bytes per second */
    double busbw; /* 1e9 bytes per second */
    int64_t wrong; /* elements; -1: not checked */
};

/** What tutti is compared with, in place. */
struct bench_compared {
    bool measured; /* false: there are no such columns */
    double time_us; /* per operation */
    double ratio; /* tutti's time / this one, median of the rounds */
    double ratio_min, ratio_max; /* over the rounds */
};

struct bench_row {
    uint64_t bytes;
    uint64_t count;
    const char *type;
    const char *redop; /* "none" where nothing is reduced */
    int root; /* -1: the collective has none */
    struct bench_cells out_of_place, in_place;
    struct bench_compared mpi, limit, slow, wait;
};

/** @param compare  enum bench_compare, or-ed: which comparisons have columns */
void bench_columns_head(FILE *out, int compare);
void bench_columns_row(FILE *out, const struct bench_row *row);
/** The footer: elements that were wrong, and the mean of all bus bandwidths. */
void bench_columns_foot(FILE *out, int64_t wrong, double busbw_mean);

#endif
