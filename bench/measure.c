/*
 * Rounds of one side or several.
 */
#include "bench/measure.h"

#include <math.h>
#include <stdlib.h>

#include "bench/core/arithmetic.h"
#include "bench/core/sizes.h"
#include "bench/exchange.h"

/* A round takes no longer than this, unless it would have fewer iterations than that. */
enum {
    ROUND_US = 2000000,
    ITERATIONS_MIN = 5
};

/* A warm-up that settles: so many times as long at most, and not for longer than that. */
enum {
    SETTLE_PARTS = 8,
    SETTLE_US = 500000
};

/* Beyond this a figure is doubted: width of its interval, cores that others use. */
static const double width_doubted = 0.1;
static const double cores_doubted = 0.1;

const struct rival rivals[] = {
    { SIDE_MPI, BENCH_WITH_ANY_MPI, "raw MPI", "MPI" },
    { SIDE_LIMIT, BENCH_WITH_LIMIT, "limit", "limit" },
    { SIDE_SLOW, BENCH_WITH_SLOW, "slow", "slow" },
    { SIDE_EXCHANGE, BENCH_WITH_EXCHANGE, "exchange", "exchange" },
    { SIDE_WAIT, BENCH_WITH_WAIT, "wait", "wait" },
    { SIDE_COPY, BENCH_WITH_COPY, "copy", "copy" },
    { SIDE_CMA, BENCH_WITH_CMA, "cma", "cma" },
    { SIDE_CONTIGUOUS, BENCH_WITH_CONTIGUOUS, "MPI, in one", "contiguous" },
    { SIDE_TUTTI, 0, NULL, NULL },
};

/* A side at work, and what it collects, one entry per round. */
struct series {
    enum side side;
    struct work *work; /* its tensors, borrowed */
    work_step step;
    double *typical; /* owned */
    double *p99; /* owned */
    double *own; /* owned; means of this rank */
    double min; /* over all rounds so far */
};

/* What is measured beside tutti and has buffers of its own. Zeroed is none. */
struct companions {
    struct work mapped; /* for the limit */
    struct work slow; /* for tutti with --slow */
    struct work waiting; /* for tutti with waits; borrowed buffers */
    struct exchange *exchange; /* on tutti's buffers; owned */
    struct private_sum *private_sum; /* likewise */
    struct bench_workload one; /* a tensor of all elements */
    struct work contiguous; /* of it */
};

struct effort effort_for(const struct job *job, uint64_t bytes)
{
    const struct bench_arguments *arguments = job->arguments;
    struct effort effort = {
        .iterations = arguments->iterations,
        .warmup = arguments->warmup,
        .operations = 1,
        .settle = arguments->warmup < 0,
        .exact = arguments->iterations != 0,
        .compare = arguments->compare,
    };

    if (effort.iterations == 0) {
        effort.iterations = bench_default_iterations(bytes);
    }
    if (effort.warmup < 0) {
        effort.warmup = effort.iterations > 50 ? effort.iterations / 10 : 5;
    }
    return effort;
}

/* The timed steps of a round. */
static tutti_status time_steps(
        const struct effort *effort, struct series *series, double *samples)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < effort->iterations && status == TUTTI_OK; i++) {
        const double start = bench_now_us();
        double end;

        series->work->ended_us = 0;
        status = series->step(series->work);
        end = series->work->ended_us > 0 ? series->work->ended_us : bench_now_us();
        samples[i] = (end - start) / effort->operations;
    }
    return status;
}

static tutti_status run_round(
        const struct effort *effort, struct series *series, int round, double *samples)
{
    struct bench_summary summary;
    tutti_status status;
    double figures[3];

    job_barrier();
    status = series->step(series->work);
    if (status == TUTTI_OK) {
        status = time_steps(effort, series, samples);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    summary = bench_summarise(samples, (size_t)effort->iterations);
    figures[0] = summary.min;
    figures[1] = effort->mean ? summary.mean : summary.median;
    figures[2] = summary.p99;
    job_combine(series->work->job, figures, 3);
    if (round == 0 || figures[0] < series->min) {
        series->min = figures[0];
    }
    series->typical[round] = figures[1];
    series->p99[round] = figures[2];
    series->own[round] = summary.mean;
    return TUTTI_OK;
}

/* Takes `count` untimed steps; *mean_us becomes their mean on the slowest rank. */
static tutti_status take_steps(const struct series *side, int count, double *mean_us)
{
    const double start = bench_now_us();
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        status = side->step(side->work);
    }
    if (status == TUTTI_OK) {
        *mean_us = (bench_now_us() - start) / count;
        job_combine(side->work->job, mean_us, 1);
    }
    return status;
}

/* Warms up a side; where it is to settle, until a part is not 5 % faster than the last. */
static tutti_status warm_up_side(
        const struct effort *effort, const struct series *side, double *mean_us)
{
    tutti_status status = take_steps(side, effort->warmup, mean_us);
    double spent_us = *mean_us * effort->warmup;
    double before_us;
    int parts = effort->settle ? SETTLE_PARTS : 1;

    do {
        before_us = *mean_us;
        if (--parts == 0 || spent_us > SETTLE_US || status != TUTTI_OK) {
            return status;
        }
        status = take_steps(side, effort->warmup, mean_us);
        spent_us += *mean_us * effort->warmup;
    } while (*mean_us < 0.95 * before_us);
    return status;
}

/* Warms up all sides; *step_us becomes the mean step of the slowest, 0 without warm-up. */
static tutti_status warm_up(const struct effort *effort, const struct series *sides,
        int count, double *step_us)
{
    tutti_status status = TUTTI_OK;

    *step_us = 0;
    for (int side = 0; side < count && status == TUTTI_OK && effort->warmup > 0;
            side++) {
        double mean_us = 0;

        status = warm_up_side(effort, &sides[side], &mean_us);
        *step_us = mean_us > *step_us ? mean_us : *step_us;
    }
    return status;
}

/* Fewer iterations where a round would take too long and nobody asked for so many. */
static int affordable(const struct effort *effort, double step_us)
{
    double most = step_us > 0 ? ROUND_US / step_us : effort->iterations;

    if (effort->exact || most >= effort->iterations) {
        return effort->iterations;
    }
    return most > ITERATIONS_MIN ? (int)most : ITERATIONS_MIN;
}

static tutti_status run_rounds(struct effort *effort, struct series *sides, int count)
{
    const struct work *work = sides[0].work;
    int rounds = work->job->arguments->rounds;
    double *samples = calloc((size_t)effort->iterations, sizeof *samples);
    double step_us = 0;
    tutti_status status;

    if (samples == NULL) {
        return job_failed(work->job, TUTTI_ERR_NO_MEMORY, "allocating samples");
    }
    status = warm_up(effort, sides, count, &step_us);
    effort->iterations = affordable(effort, step_us);
    for (int round = 0; round < rounds && status == TUTTI_OK; round++) {
        job_progress(work->job, work->tensors->name, round, rounds);
        for (int turn = 0; turn < count && status == TUTTI_OK; turn++) {
            struct series *side = &sides[(round + turn) % count];

            status = run_round(effort, side, round, samples);
        }
    }
    job_progress(work->job, "", rounds, rounds);
    free(samples);
    return status;
}

static tutti_status check_side(const struct series *series, int64_t *wrong)
{
    struct job *job = series->work->job;
    int checks = job->arguments->checks;
    tutti_status status = work_check(series->work, series->step, checks, wrong);

    if (status == TUTTI_OK) {
        *wrong = checks == 0 ? -1 : job_count_wrong(job, *wrong);
    }
    return status;
}

/* What the ranks took by themselves, one beside the other. */
static void compare_ranks(
        const struct series *series, size_t rounds, struct side_result *side)
{
    const double own = bench_summarise(series->own, rounds).median;
    double least_and_most[] = { -own, own };

    side->rank_mean = own;
    job_sum(&side->rank_mean, 1);
    side->rank_mean /= series->work->job->size;
    job_maximum(least_and_most, 2);
    side->rank_min = -least_and_most[0];
    side->rank_max = least_and_most[1];
}

/* Fills in everything but the counts of wrong elements; sorts all series. */
static void conclude(const struct series *sides, int count, double *ratios,
        size_t rounds, struct measurement *result)
{
    /* the ratios first: they need the rounds in their order */
    for (int i = 0; i < count; i++) {
        for (size_t round = 0; round < rounds; round++) {
            ratios[round] = sides[0].typical[round] / sides[i].typical[round];
        }
        result->side[sides[i].side].ratio = bench_summarise(ratios, rounds);
    }
    for (int i = 0; i < count; i++) {
        struct side_result *side = &result->side[sides[i].side];
        const struct bench_summary typical = bench_summarise(sides[i].typical, rounds);

        side->measured = true;
        side->typical = typical.median;
        side->low = typical.low;
        side->high = typical.high;
        compare_ranks(&sides[i], rounds, side);
        side->p99 = bench_summarise(sides[i].p99, rounds).median;
        side->min = sides[i].min;
        if (sides[i].work->steps > 0) {
            side->tail = sides[i].work->tail_us / (double)sides[i].work->steps;
        }
    }
}

/* Times and checks the sides; the first is tutti's. */
static tutti_status measure_sides(struct effort *effort, struct series *sides,
        int count, struct measurement *result)
{
    struct job *job = sides[0].work->job;
    size_t rounds = (size_t)job->arguments->rounds;
    double *storage = calloc((3 * SIDE_COUNT + 1) * rounds, sizeof *storage);
    struct measurement made = { .side[SIDE_TUTTI].measured = true };
    tutti_status status;

    if (storage == NULL) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating rounds");
    }
    for (int i = 0; i < count; i++) {
        sides[i].typical = storage + (size_t)(3 * i + 1) * rounds;
        sides[i].p99 = sides[i].typical + rounds;
        sides[i].own = sides[i].p99 + rounds;
    }
    noise_start(&made.noise);
    status = run_rounds(effort, sides, count);
    if (status == TUTTI_OK) {
        noise_end(&made.noise, job);
        conclude(sides, count, storage, rounds, &made);
    }
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        status = check_side(&sides[i], &made.side[sides[i].side].wrong);
    }
    if (status == TUTTI_OK) {
        *result = made;
    }
    free(storage);
    return status;
}

/* Those that were opened are companions_close()'s, also after a failure. */
/* What a program has that puts all gradients into one buffer before it calls MPI. */
static tutti_status open_contiguous(
        struct companions *companions, const struct work *work)
{
    uint64_t count = 0;

    for (size_t i = 0; i < work->tensors->count; i++) {
        count += work->tensors->tensors[i].count;
    }
    if (!bench_workload_init_uniform(&companions->one, 1, count)) {
        return job_failed(work->job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    return work_open(&companions->contiguous, work->job, &companions->one, true);
}

static tutti_status companions_open(
        struct companions *companions, struct work *work, int compare)
{
    tutti_status status = TUTTI_OK;

    *companions = (struct companions){ .mapped.job = NULL };
    if ((compare & BENCH_WITH_LIMIT) != 0) {
        status = work_open_mapped(&companions->mapped, work->job, work->tensors);
    }
    if (status == TUTTI_OK && (compare & BENCH_WITH_SLOW) != 0) {
        status = work_open_slow(&companions->slow, work);
    }
    if (status == TUTTI_OK && (compare & BENCH_WITH_EXCHANGE) != 0) {
        status = exchange_open(&companions->exchange, work);
        work->exchange = companions->exchange;
    }
    if (status == TUTTI_OK && (compare & BENCH_WITH_PRIVATE_SUM) != 0) {
        status = private_sum_open(&companions->private_sum, work);
        work->private_sum = companions->private_sum;
    }
    if (status == TUTTI_OK && (compare & BENCH_WITH_CONTIGUOUS) != 0) {
        status = open_contiguous(companions, work);
    }
    companions->waiting = work_waiting(work);
    return status;
}

static void companions_close(struct companions *companions)
{
    work_close(&companions->mapped);
    work_close(&companions->slow);
    exchange_close(companions->exchange);
    private_sum_close(companions->private_sum);
    work_close(&companions->contiguous);
    bench_workload_fini(&companions->one);
}

/* Who takes rounds, tutti first; returns how many. */
static int list_sides(struct series sides[SIDE_COUNT], struct work *work, int compare,
        struct companions *companions)
{
    int count = 0;

    sides[count++] =
            (struct series){ .side = SIDE_TUTTI, .work = work, .step = work->step };
    if ((compare & BENCH_WITH_ANY_MPI) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_MPI, .work = work, .step = work_step_mpi
        };
    }
    if ((compare & BENCH_WITH_LIMIT) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_LIMIT, .work = &companions->mapped, .step = work_step_limit
        };
    }
    if ((compare & BENCH_WITH_SLOW) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_SLOW,
            .work = &companions->slow,
            .step = companions->slow.step,
        };
    }
    if ((compare & BENCH_WITH_WAIT) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_WAIT, .work = &companions->waiting, .step = work->step
        };
    }
    if ((compare & BENCH_WITH_EXCHANGE) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_EXCHANGE, .work = work, .step = work_step_exchange
        };
    }
    if ((compare & BENCH_WITH_COPY) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_COPY, .work = work, .step = work_step_copy
        };
    }
    if ((compare & BENCH_WITH_CMA) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_CMA, .work = work, .step = work_step_cma
        };
    }
    if ((compare & BENCH_WITH_CONTIGUOUS) != 0) {
        sides[count++] = (struct series){
            .side = SIDE_CONTIGUOUS,
            .work = &companions->contiguous,
            .step = work_step_mpi,
        };
    }
    return count;
}

tutti_status measure(
        struct work *work, struct effort *effort, struct measurement *result)
{
    struct companions companions;
    tutti_status status = companions_open(&companions, work, effort->compare);

    if (status == TUTTI_OK) {
        struct series sides[SIDE_COUNT];
        int count = list_sides(sides, work, effort->compare, &companions);

        status = measure_sides(effort, sides, count, result);
    }
    companions_close(&companions);
    return status;
}

/* Half of a range is no range. */
static void interval_to_json(
        struct bench_json *json, const char *key, double low, double high)
{
    if (isfinite(low)) {
        bench_json_range(json, key, low, high);
    } else {
        bench_json_null(json, key);
    }
}

static void mpi_to_json(struct bench_json *json, const struct side_result *mpi)
{
    if (!mpi->measured) {
        bench_json_null(json, "mpi_us");
        bench_json_null(json, "ratio");
        bench_json_null(json, "spread");
        return;
    }
    bench_json_number(json, "mpi_us", mpi->typical);
    bench_json_number(json, "mpi_min_us", mpi->min);
    bench_json_number(json, "mpi_p99_us", mpi->p99);
    bench_json_number(json, "ratio", mpi->ratio.median);
    bench_json_range(json, "spread", mpi->ratio.min, mpi->ratio.max);
    interval_to_json(json, "mpi_ci", mpi->low, mpi->high);
    interval_to_json(json, "ratio_ci", mpi->ratio.low, mpi->ratio.high);
    bench_json_count(json, "mpi_wrong", mpi->wrong);
}

/* Its members are named after it: "limit_us", "vs_limit", ... */
static void companion_to_json(struct bench_json *json, const char *name,
        const struct side_result *side, const struct side_result *own)
{
    char time[32], ratio[32], spread[32], min[32], p99[32], p99_ratio[32], wrong[32];

    (void)snprintf(time, sizeof time, "%s_us", name);
    (void)snprintf(ratio, sizeof ratio, "vs_%s", name);
    (void)snprintf(spread, sizeof spread, "vs_%s_spread", name);
    if (!side->measured) {
        bench_json_null(json, time);
        bench_json_null(json, ratio);
        bench_json_null(json, spread);
        return;
    }
    (void)snprintf(min, sizeof min, "%s_min_us", name);
    (void)snprintf(p99, sizeof p99, "%s_p99_us", name);
    (void)snprintf(p99_ratio, sizeof p99_ratio, "vs_%s_p99", name);
    (void)snprintf(wrong, sizeof wrong, "%s_wrong", name);
    bench_json_number(json, time, side->typical);
    bench_json_number(json, min, side->min);
    bench_json_number(json, p99, side->p99);
    bench_json_number(json, p99_ratio, own->p99 / side->p99);
    bench_json_number(json, ratio, side->ratio.median);
    bench_json_range(json, spread, side->ratio.min, side->ratio.max);
    bench_json_count(json, wrong, side->wrong);
}

enum {
    DOUBTS_MAX = 160
};

/* Whether a figure is to be doubted, and why. */
static bool doubt(const struct measurement *result, char text[DOUBTS_MAX])
{
    const struct side_result *own = &result->side[SIDE_TUTTI];
    const double width = (own->high - own->low) / own->typical;
    int used = 0;

    text[0] = '\0';
    if (width > width_doubted) {
        used = snprintf(
                text, DOUBTS_MAX, "the 95 %% interval is %.0f %% wide", 100 * width);
    }
    if (result->noise.cores > cores_doubted) {
        (void)snprintf(text + used, (size_t)(DOUBTS_MAX - used),
                "%sother processes used %.1f cores", used > 0 ? "; " : "",
                result->noise.cores);
    }
    return text[0] != '\0';
}

void measure_to_json(struct bench_json *json, const struct work *work,
        const struct effort *effort, const struct measurement *result)
{
    const struct bench_arguments *arguments = work->job->arguments;
    const struct side_result *own = &result->side[SIDE_TUTTI];
    char compare[BENCH_COMPARE_TEXT_MAX];
    char doubts[DOUBTS_MAX];

    work_to_json(json, work);
    bench_json_integer(json, "rounds", arguments->rounds);
    bench_json_integer(json, "iterations", effort->iterations);
    bench_json_number(json, "tutti_us", own->typical);
    interval_to_json(json, "tutti_ci", own->low, own->high);
    bench_json_number(json, "tutti_min_us", own->min);
    bench_json_number(json, "tutti_p99_us", own->p99);
    bench_json_count(json, "wrong", own->wrong);
    bench_compare_text(effort->compare, compare);
    if (compare[0] == '\0') {
        bench_json_null(json, "compare");
    } else {
        bench_json_text(json, "compare", compare);
    }
    mpi_to_json(json, &result->side[SIDE_MPI]);
    for (const struct rival *r = rivals; r->name != NULL; r++) {
        if (r->side != SIDE_MPI) {
            companion_to_json(json, r->name, &result->side[r->side], own);
        }
    }
    bench_json_number(json, "other_cores", result->noise.cores);
    if (doubt(result, doubts)) {
        bench_json_text(json, "noise", doubts);
    } else {
        bench_json_null(json, "noise");
    }
}

void measure_print_doubts(const struct job *job, const struct measurement *result)
{
    char doubts[DOUBTS_MAX];

    if (job->rank == 0 && doubt(result, doubts)) {
        (void)printf("#   noisy: %s\n", doubts);
        (void)fflush(stdout);
    }
}
