/*
 * The tables of a sweep. That of the OSU micro-benchmarks with -f: a size, the mean, least
 * and most of the ranks' times, and how many iterations. That of nccl-tests: one row per size, out-of-place and in-place side by side, and
 * here a part for each of the comparisons: with raw MPI, with the limit, with tutti
 * with another parameter and with tutti when it is waited for.
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
    double rank_mean, rank_min, rank_max; /* time_us of the ranks, each by itself */
    int64_t iterations; /* that were timed */
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
/** The same in OSU's columns; the collective by name, and what OSU calls the size. */
void bench_columns_osu_head(FILE *out, const char *collective);
void bench_columns_osu_row(FILE *out, uint64_t size, const struct bench_cells *cells);
/** The footer: elements that were wrong, and the mean of all bus bandwidths. */
void bench_columns_foot(FILE *out, int64_t wrong, double busbw_mean);

#endif
