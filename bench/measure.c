/*
 * Rounds of one or two sides.
 */
#include "bench/measure.h"

#include <stdlib.h>

#include "bench/core/arithmetic.h"
#include "bench/core/sizes.h"

/* A round takes no longer than this, unless it would have fewer iterations than that. */
enum {
    ROUND_US = 2000000,
    ITERATIONS_MIN = 5
};

/* What one side collects, one entry per round. */
struct series {
    work_step step;
    double *typical; /* owned */
    double *p99; /* owned */
    double min; /* over all rounds so far */
};

struct effort effort_for(const struct job *job, uint64_t bytes)
{
    const struct bench_arguments *arguments = job->arguments;
    struct effort effort = {
        .iterations = arguments->iterations,
        .warmup = arguments->warmup,
        .operations = 1,
        .compare = arguments->compare != BENCH_COMPARE_NONE,
    };

    if (effort.iterations == 0) {
        effort.iterations = bench_default_iterations(bytes);
    }
    if (effort.warmup < 0) {
        effort.warmup = effort.iterations > 50 ? effort.iterations / 10 : 5;
    }
    return effort;
}

static tutti_status run_round(struct work *work, const struct effort *effort,
        struct series *series, int round, double *samples)
{
    struct bench_summary summary;
    tutti_status status;
    double figures[3];

    job_barrier();
    status = series->step(work);
    for (int i = 0; i < effort->iterations && status == TUTTI_OK; i++) {
        double start = bench_now_us();

        status = series->step(work);
        samples[i] = (bench_now_us() - start) / effort->operations;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    summary = bench_summarise(samples, (size_t)effort->iterations);
    figures[0] = summary.min;
    figures[1] = effort->mean ? summary.mean : summary.median;
    figures[2] = summary.p99;
    job_combine(work->job, figures, 3);
    if (round == 0 || figures[0] < series->min) {
        series->min = figures[0];
    }
    series->typical[round] = figures[1];
    series->p99[round] = figures[2];
    return TUTTI_OK;
}

/* Warms up all sides; *step_us becomes the mean step of the slowest, 0 without warm-up. */
static tutti_status warm_up(struct work *work, const struct effort *effort,
        const struct series *sides, int count, double *step_us)
{
    tutti_status status = TUTTI_OK;
    double slowest = 0;

    for (int side = 0; side < count; side++) {
        double start = bench_now_us();
        double mean;

        for (int i = 0; i < effort->warmup && status == TUTTI_OK; i++) {
            status = sides[side].step(work);
        }
        mean = effort->warmup > 0 ? (bench_now_us() - start) / effort->warmup : 0;
        slowest = mean > slowest ? mean : slowest;
    }
    if (status == TUTTI_OK) {
        job_combine(work->job, &slowest, 1);
        *step_us = slowest;
    }
    return status;
}

/* Fewer iterations where a round would take too long and nobody asked for so many. */
static int affordable(
        const struct job *job, const struct effort *effort, double step_us)
{
    double most = step_us > 0 ? ROUND_US / step_us : effort->iterations;

    if (job->arguments->iterations != 0 || most >= effort->iterations) {
        return effort->iterations;
    }
    return most > ITERATIONS_MIN ? (int)most : ITERATIONS_MIN;
}

static tutti_status run_rounds(
        struct work *work, struct effort *effort, struct series *sides, int count)
{
    int rounds = work->job->arguments->rounds;
    double *samples = calloc((size_t)effort->iterations, sizeof *samples);
    double step_us = 0;
    tutti_status status;

    if (samples == NULL) {
        return job_failed(work->job, TUTTI_ERR_NO_MEMORY, "allocating samples");
    }
    status = warm_up(work, effort, sides, count, &step_us);
    effort->iterations = affordable(work->job, effort, step_us);
    for (int round = 0; round < rounds && status == TUTTI_OK; round++) {
        job_progress(work->job, work->tensors->name, round, rounds);
        for (int turn = 0; turn < count && status == TUTTI_OK; turn++) {
            struct series *side = &sides[(round + turn) % count];

            status = run_round(work, effort, side, round, samples);
        }
    }
    job_progress(work->job, "", rounds, rounds);
    free(samples);
    return status;
}

static tutti_status check_side(
        struct work *work, const struct series *series, int64_t *wrong)
{
    int checks = work->job->arguments->checks;
    tutti_status status = work_check(work, series->step, checks, wrong);

    if (status == TUTTI_OK) {
        *wrong = checks == 0 ? -1 : job_count_wrong(work->job, *wrong);
    }
    return status;
}

/* Fills in everything but the counts of wrong elements; sorts all series. */
static void conclude(struct series *sides, bool compared, double *ratios, size_t rounds,
        struct measurement *result)
{
    struct bench_summary summary;

    if (compared) {
        for (size_t i = 0; i < rounds; i++) {
            ratios[i] = sides[0].typical[i] / sides[1].typical[i];
        }
        summary = bench_summarise(ratios, rounds);
        result->compared = true;
        result->ratio = summary.median;
        result->ratio_min = summary.min;
        result->ratio_max = summary.max;
        result->mpi.typical = bench_summarise(sides[1].typical, rounds).median;
        result->mpi.p99 = bench_summarise(sides[1].p99, rounds).median;
        result->mpi.min = sides[1].min;
    }
    result->tutti.typical = bench_summarise(sides[0].typical, rounds).median;
    result->tutti.p99 = bench_summarise(sides[0].p99, rounds).median;
    result->tutti.min = sides[0].min;
}

tutti_status measure(
        struct work *work, struct effort *effort, struct measurement *result)
{
    size_t rounds = (size_t)work->job->arguments->rounds;
    double *storage = calloc(5 * rounds, sizeof *storage);
    struct series sides[2] = { { .step = work_step_tutti }, { .step = work_step_mpi } };
    int count = effort->compare ? 2 : 1;
    struct measurement made = { .mpi = { .wrong = -1 } };
    tutti_status status;

    if (storage == NULL) {
        return job_failed(work->job, TUTTI_ERR_NO_MEMORY, "allocating rounds");
    }
    for (size_t side = 0; side < 2; side++) {
        sides[side].typical = storage + 2 * side * rounds;
        sides[side].p99 = sides[side].typical + rounds;
    }
    status = run_rounds(work, effort, sides, count);
    if (status == TUTTI_OK) {
        conclude(sides, effort->compare, storage + 4 * rounds, rounds, &made);
        status = check_side(work, &sides[0], &made.tutti.wrong);
    }
    if (status == TUTTI_OK && effort->compare) {
        status = check_side(work, &sides[1], &made.mpi.wrong);
    }
    if (status == TUTTI_OK) {
        *result = made;
    }
    free(storage);
    return status;
}

static void comparison_to_json(
        struct bench_json *json, const char *with, const struct measurement *result)
{
    if (!result->compared) {
        bench_json_null(json, "compare");
        bench_json_null(json, "mpi_us");
        bench_json_null(json, "ratio");
        bench_json_null(json, "spread");
        return;
    }
    bench_json_text(json, "compare", with);
    bench_json_number(json, "mpi_us", result->mpi.typical);
    bench_json_number(json, "mpi_min_us", result->mpi.min);
    bench_json_number(json, "mpi_p99_us", result->mpi.p99);
    bench_json_number(json, "ratio", result->ratio);
    bench_json_range(json, "spread", result->ratio_min, result->ratio_max);
    bench_json_count(json, "mpi_wrong", result->mpi.wrong);
}

void measure_to_json(struct bench_json *json, const struct work *work,
        const struct effort *effort, const struct measurement *result)
{
    const struct bench_arguments *arguments = work->job->arguments;

    work_to_json(json, work);
    bench_json_integer(json, "rounds", arguments->rounds);
    bench_json_integer(json, "iterations", effort->iterations);
    bench_json_number(json, "tutti_us", result->tutti.typical);
    bench_json_number(json, "tutti_min_us", result->tutti.min);
    bench_json_number(json, "tutti_p99_us", result->tutti.p99);
    bench_json_count(json, "wrong", result->tutti.wrong);
    comparison_to_json(
            json, bench_compare_name((enum bench_compare)arguments->compare), result);
}
