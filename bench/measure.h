/*
 * Timing a work in rounds.
 *
 * A round of a side is a barrier, one untimed step that lines the ranks up, and
 * `iterations` timed ones. To compare, the sides take their rounds in turn and
 * change who goes first, so that a slow spell of the machine hits both; the ratio is
 * taken within each round and its median reported.
 */
#ifndef TUTTI_BENCH_MEASURE_H
#define TUTTI_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/core/summary.h"
#include "bench/noise.h"
#include "bench/work.h"

/** How much to measure. */
struct effort {
    int iterations; /* timed steps per round */
    int warmup; /* untimed steps of each side at the start */
    int operations; /* a step is this many; times are per operation */
    bool mean; /* a round's figure is the mean, not the median */
    bool settle; /* the warm-up goes on until steps are no faster than before, for a while */
    bool exact; /* as many iterations as it says, however long they take */
    int compare; /* enum bench_compare, or-ed: what is measured beside tutti */
};

/** Who takes rounds. */
enum side {
    SIDE_TUTTI,
    SIDE_MPI,
    SIDE_LIMIT,
    SIDE_SLOW,
    SIDE_EXCHANGE,
    SIDE_WAIT,
    SIDE_COPY,
    SIDE_CMA,
    SIDE_CONTIGUOUS,
    SIDE_COUNT
};

/** Whom tutti is compared with. */
struct rival {
    enum side side;
    int compare; /* enum bench_compare, or-ed: what asks for it */
    const char *title; /* of its columns */
    const char *name; /* in "tutti / name"; in JSON but for MPI */
};

/** All of them, up to a name of NULL, in the order of their columns. */
extern const struct rival rivals[];

/** One side, over all rounds, in microseconds per operation. */
struct side_result {
    bool measured; /* false: everything else is 0 */
    double min; /* smallest sample */
    double typical; /* median of the rounds' figures */
    double low, high; /* 95 % interval of this median; NaN with too few rounds */
    double rank_mean, rank_min, rank_max; /* over the ranks: median round's own mean */
    double p99; /* median of the rounds' 99th percentiles */
    double tail; /* work->tail_us per step, warm-up included */
    int64_t wrong; /* elements; -1: not checked */
    struct bench_summary ratio; /* tutti's time / this side's, over the rounds */
};

struct measurement {
    struct side_result side[SIDE_COUNT]; /* tutti's is always there */
    struct noise noise; /* while all sides were measured */
};

/** The effort for so many bytes per step, as the arguments ask. */
struct effort effort_for(const struct job *job, uint64_t bytes);

/**
 * Warms up, times and checks. Collective. Without -n, effort->iterations is lowered when
 * a round would take seconds.
 */
tutti_status measure(
        struct work *work, struct effort *effort, struct measurement *result);

/** Adds the members of a measurement, of the work and of its bytes to a row. */
void measure_to_json(struct bench_json *json, const struct work *work,
        const struct effort *effort, const struct measurement *result);

/** Says below a row, on rank 0, why its figures are to be doubted; nothing if they are not. */
void measure_print_doubts(const struct job *job, const struct measurement *result);

#endif
