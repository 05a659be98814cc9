/*
 * overlap: communication during a backward pass.
 *
 * The pass takes T ms in as many equal parts as there are layers, last layer first; after
 * its part a layer's gradients are submitted, and at the end all are waited for. On a
 * "device" the thread sleeps until the layer is due, as beside a GPU; on the "cpu" it does
 * a fixed amount of arithmetic. Exposed communication is what the step takes beyond the
 * pass alone: beyond T, or beyond the same arithmetic measured by itself. Both are
 * compared with the same tensors submitted at once beside nothing else, and, when asked,
 * with the same step in tutti with another parameter.
 *
 * Arithmetic takes longer or shorter from one moment to the next, by more than is to be
 * measured. So the phases follow each other within an iteration, and it is within an
 * iteration that they are subtracted and divided; only then are medians taken.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/tutti.h>

#include "bench/commands.h"
#include "bench/core/arithmetic.h"
#include "bench/measure.h"

/* The things that are timed, in turn. */
enum phase {
    PHASE_OVERLAPPED,
    PHASE_UNOVERLAPPED,
    PHASE_SLOW, /* overlapped, with --slow; when that is compared */
    PHASE_ALONE, /* cpu only */
    PHASE_COUNT
};

struct overlap {
    struct work work;
    struct work slow; /* for PHASE_SLOW; zeroed when there is none */
    enum phase phases[PHASE_COUNT]; /* those there are */
    int phase_count;
    size_t layers;
    bool on_cpu;
    double pass_us; /* device: T */
    uint64_t units; /* cpu: arithmetic of the whole pass */
    double arithmetic_us; /* cpu: spent in it by the last step */
    double proof; /* results of the arithmetic, never used */
};

/* What is known of a round: medians over its iterations. */
enum figure {
    FIGURE_STEP,
    FIGURE_UNOVERLAPPED,
    FIGURE_ALONE, /* cpu only */
    FIGURE_EXPOSED, /* step - pass alone */
    FIGURE_EXPOSED_RATIO, /* exposed / unoverlapped */
    FIGURE_SLOWDOWN, /* arithmetic in the step / alone; cpu only */
    FIGURE_SLOW, /* the step with --slow */
    FIGURE_VS_SLOW, /* step / the step with --slow */
    FIGURE_COUNT
};

/* A block of series, one after the other. */
struct table {
    double *values; /* FIGURE_COUNT times `length`; owned */
    size_t length; /* rounds, or iterations of a round */
};

static bool compares_slow(const struct overlap *overlap)
{
    return (overlap->work.job->arguments->compare & BENCH_WITH_SLOW) != 0;
}

static void sleep_until_us(double when_us)
{
    struct timespec when = { .tv_sec = (time_t)(when_us / 1e6) };

    when.tv_nsec = (long)((when_us - (double)when.tv_sec * 1e6) * 1e3);
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

/* The units of one layer; together they make all units exactly. */
static uint64_t layer_units(const struct overlap *overlap, size_t layer)
{
    return overlap->units * (layer + 1) / overlap->layers -
            overlap->units * layer / overlap->layers;
}

static void compute_layer(struct overlap *overlap, size_t layer, double start_us)
{
    if (overlap->on_cpu) {
        double start = bench_now_us();

        overlap->proof += bench_arithmetic(layer_units(overlap, layer));
        overlap->arithmetic_us += bench_now_us() - start;
    } else {
        double share = (double)(layer + 1) / (double)overlap->layers;

        sleep_until_us(start_us + share * overlap->pass_us);
    }
}

static tutti_status step_overlapped(struct overlap *overlap, struct work *work)
{
    const struct bench_workload *tensors = work->tensors;
    double start = bench_now_us();
    size_t done = 0;
    tutti_status status = TUTTI_OK;

    for (size_t layer = 0; done < tensors->count && status == TUTTI_OK; layer++) {
        size_t next = bench_workload_next_layer(tensors, done);

        compute_layer(overlap, layer, start);
        status = work_submit(work, done, next);
        done = next;
    }
    return status == TUTTI_OK ? work_wait(work) : status;
}

static tutti_status step(struct overlap *overlap, enum phase phase)
{
    overlap->arithmetic_us = 0;
    switch (phase) {
    case PHASE_OVERLAPPED:
        return step_overlapped(overlap, &overlap->work);
    case PHASE_UNOVERLAPPED:
        return work_step_tutti(&overlap->work);
    case PHASE_SLOW:
        return step_overlapped(overlap, &overlap->slow);
    case PHASE_ALONE:
        for (size_t layer = 0; layer < overlap->layers; layer++) {
            compute_layer(overlap, layer, 0);
        }
        break;
    case PHASE_COUNT:
        break;
    }
    return TUTTI_OK;
}

static double *series(const struct table *table, enum figure figure)
{
    return table->values + (size_t)figure * table->length;
}

/* Times one phase: the step, and the arithmetic in it. */
static tutti_status run_phase(
        struct overlap *overlap, enum phase phase, double times[2])
{
    double start;
    tutti_status status;

    job_barrier();
    start = bench_now_us();
    status = step(overlap, phase);
    times[0] = bench_now_us() - start;
    times[1] = overlap->arithmetic_us;
    if (status == TUTTI_OK) {
        job_combine(overlap->work.job, times, 2);
    }
    return status;
}

/* Fills entry `at` of every series. */
static void keep_times(
        const struct table *iterations, size_t at, double times[PHASE_COUNT][2])
{
    const double exposed = times[PHASE_OVERLAPPED][0] - times[PHASE_ALONE][0];

    series(iterations, FIGURE_STEP)[at] = times[PHASE_OVERLAPPED][0];
    series(iterations, FIGURE_UNOVERLAPPED)[at] = times[PHASE_UNOVERLAPPED][0];
    series(iterations, FIGURE_ALONE)[at] = times[PHASE_ALONE][0];
    series(iterations, FIGURE_EXPOSED)[at] = exposed;
    series(iterations, FIGURE_EXPOSED_RATIO)[at] =
            exposed / times[PHASE_UNOVERLAPPED][0];
    series(iterations, FIGURE_SLOWDOWN)[at] =
            times[PHASE_OVERLAPPED][1] / times[PHASE_ALONE][0];
    series(iterations, FIGURE_SLOW)[at] = times[PHASE_SLOW][0];
    series(iterations, FIGURE_VS_SLOW)[at] = times[PHASE_SLOW][0] > 0
            ? times[PHASE_OVERLAPPED][0] / times[PHASE_SLOW][0]
            : 0;
}

/* All phases once, in an order that changes; fills entry `at` of every series. */
static tutti_status run_iteration(
        struct overlap *overlap, const struct table *iterations, size_t at, int first)
{
    double times[PHASE_COUNT][2] = { [PHASE_ALONE] = { overlap->pass_us, 0 } };

    for (int turn = 0; turn < overlap->phase_count; turn++) {
        enum phase phase = overlap->phases[(first + turn) % overlap->phase_count];
        tutti_status status = run_phase(overlap, phase, times[phase]);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    keep_times(iterations, at, times);
    return TUTTI_OK;
}

/* Fills entry `round` of every series of `rounds`. */
static tutti_status run_round(struct overlap *overlap, const struct table *rounds,
        size_t round, const struct table *iterations)
{
    for (size_t i = 0; i < iterations->length; i++) {
        tutti_status status =
                run_iteration(overlap, iterations, i, (int)((round + i) % PHASE_COUNT));

        if (status != TUTTI_OK) {
            return status;
        }
    }
    for (int figure = 0; figure < FIGURE_COUNT; figure++) {
        series(rounds, (enum figure)figure)[round] = bench_summarise(
                series(iterations, (enum figure)figure), iterations->length)
                                                             .median;
    }
    return TUTTI_OK;
}

/* The results of an overlapped step are checked, not those of an easier one. */
static tutti_status check(
        struct overlap *overlap, struct work *work, enum phase phase, int64_t *wrong)
{
    int checks = overlap->work.job->arguments->checks;
    int64_t total = 0;

    for (int i = 0; i < checks; i++) {
        tutti_status status;

        work_fill(work);
        status = step(overlap, phase);
        if (status != TUTTI_OK) {
            return status;
        }
        total += work_count_wrong(work);
    }
    *wrong = checks == 0 ? -1 : job_count_wrong(overlap->work.job, total);
    return TUTTI_OK;
}

/* Medians over the rounds, in microseconds where it is a time. */
struct figures {
    double step, unoverlapped, exposed;
    struct bench_summary exposed_ratio;
    struct bench_summary arithmetic; /* alone; cpu only */
    struct bench_summary slowdown; /* cpu only */
    double slow; /* where it is compared */
    struct bench_summary vs_slow; /* where it is compared */
    int64_t wrong, slow_wrong; /* -1: not checked */
};

/* Sorts the series. */
static struct bench_summary over_rounds(const struct table *rounds, enum figure figure)
{
    return bench_summarise(series(rounds, figure), rounds->length);
}

/* All but the counts. */
static struct figures conclude(const struct table *rounds)
{
    return (struct figures){
        .step = over_rounds(rounds, FIGURE_STEP).median,
        .unoverlapped = over_rounds(rounds, FIGURE_UNOVERLAPPED).median,
        .exposed = over_rounds(rounds, FIGURE_EXPOSED).median,
        .exposed_ratio = over_rounds(rounds, FIGURE_EXPOSED_RATIO),
        .arithmetic = over_rounds(rounds, FIGURE_ALONE),
        .slowdown = over_rounds(rounds, FIGURE_SLOWDOWN),
        .slow = over_rounds(rounds, FIGURE_SLOW).median,
        .vs_slow = over_rounds(rounds, FIGURE_VS_SLOW),
    };
}

static void print_figures(const struct overlap *overlap, const struct figures *figures)
{
    (void)printf("  %-28s %11.3f ms\n", "step", figures->step / 1e3);
    (void)printf("  %-28s %11.3f ms\n", "communication, unoverlapped",
            figures->unoverlapped / 1e3);
    (void)printf("  %-28s %11.3f ms   %.3f of unoverlapped (%.3f..%.3f)\n",
            "communication, exposed", figures->exposed / 1e3,
            figures->exposed_ratio.median, figures->exposed_ratio.min,
            figures->exposed_ratio.max);
    if (overlap->on_cpu) {
        (void)printf("  %-28s %11.3f ms   %.3f times as long in the step "
                     "(%.3f..%.3f)\n",
                "arithmetic, alone", figures->arithmetic.median / 1e3,
                figures->slowdown.median, figures->slowdown.min, figures->slowdown.max);
    }
    if (compares_slow(overlap)) {
        (void)printf("  %-28s %11.3f ms   tutti / slow %.3f (%.3f..%.3f)\n",
                "step with --slow", figures->slow / 1e3, figures->vs_slow.median,
                figures->vs_slow.min, figures->vs_slow.max);
    }
    (void)printf("  %-28s %11lld\n", "#wrong", (long long)figures->wrong);
}

static void slow_to_json(struct bench_json *json, const struct overlap *overlap,
        const struct figures *figures)
{
    if (!compares_slow(overlap)) {
        bench_json_null(json, "slow_us");
        bench_json_null(json, "vs_slow");
        bench_json_null(json, "vs_slow_spread");
        return;
    }
    bench_json_number(json, "slow_us", figures->slow);
    bench_json_number(json, "vs_slow", figures->vs_slow.median);
    bench_json_range(
            json, "vs_slow_spread", figures->vs_slow.min, figures->vs_slow.max);
    bench_json_count(json, "slow_wrong", figures->slow_wrong);
}

static void arithmetic_to_json(struct bench_json *json, const struct figures *figures)
{
    bench_json_number(json, "arithmetic_us", figures->arithmetic.median);
    bench_json_range(json, "arithmetic_spread", figures->arithmetic.min,
            figures->arithmetic.max);
    bench_json_number(json, "slowdown", figures->slowdown.median);
    bench_json_range(
            json, "slowdown_spread", figures->slowdown.min, figures->slowdown.max);
}

static void report(
        const struct overlap *overlap, size_t iterations, const struct figures *figures)
{
    const struct job *job = overlap->work.job;
    struct bench_json json;

    if (job->rank == 0) {
        print_figures(overlap, figures);
    }
    job_row_start(job, &json);
    bench_json_text(&json, "workload", overlap->work.tensors->name);
    bench_json_text(&json, "compute", overlap->on_cpu ? "cpu" : "device");
    bench_json_number(&json, "backward_ms", job->arguments->backward_ms);
    work_to_json(&json, &overlap->work);
    bench_json_integer(&json, "rounds", job->arguments->rounds);
    bench_json_integer(&json, "iterations", (int64_t)iterations);
    bench_json_number(&json, "tutti_us", figures->step);
    bench_json_null(&json, "mpi_us");
    bench_json_null(&json, "ratio");
    bench_json_null(&json, "spread");
    bench_json_count(&json, "wrong", figures->wrong);
    bench_json_number(&json, "unoverlapped_us", figures->unoverlapped);
    bench_json_number(&json, "exposed_us", figures->exposed);
    bench_json_number(&json, "exposed_ratio", figures->exposed_ratio.median);
    bench_json_range(&json, "exposed_spread", figures->exposed_ratio.min,
            figures->exposed_ratio.max);
    if (overlap->on_cpu) {
        arithmetic_to_json(&json, figures);
    }
    slow_to_json(&json, overlap, figures);
    job_row_write(job, &json);
}

static tutti_status warm_up(struct overlap *overlap)
{
    const struct bench_arguments *arguments = overlap->work.job->arguments;
    int warmup = arguments->warmup < 0 ? 5 : arguments->warmup;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < warmup && status == TUTTI_OK; i++) {
        status = step(overlap, i == 0 ? PHASE_OVERLAPPED : PHASE_UNOVERLAPPED);
    }
    for (int i = 0; i < warmup && status == TUTTI_OK && compares_slow(overlap); i++) {
        status = i == 0 ? step(overlap, PHASE_SLOW) : work_step_tutti(&overlap->slow);
    }
    return status;
}

/* Checks the results and reports. */
static tutti_status finish(struct overlap *overlap, const struct table *rounds,
        const struct table *iterations)
{
    struct figures figures = conclude(rounds);
    tutti_status status =
            check(overlap, &overlap->work, PHASE_OVERLAPPED, &figures.wrong);

    if (status == TUTTI_OK && compares_slow(overlap)) {
        status = check(overlap, &overlap->slow, PHASE_SLOW, &figures.slow_wrong);
    }
    if (status == TUTTI_OK) {
        report(overlap, iterations->length, &figures);
    }
    return status;
}

static tutti_status measure_rounds(struct overlap *overlap, const struct table *rounds,
        const struct table *iterations)
{
    struct job *job = overlap->work.job;
    const struct bench_arguments *arguments = job->arguments;
    tutti_status status = warm_up(overlap);

    for (int round = 0; round < arguments->rounds && status == TUTTI_OK; round++) {
        job_progress(job, overlap->work.tensors->name, round, arguments->rounds);
        status = run_round(overlap, rounds, (size_t)round, iterations);
    }
    job_progress(job, "", arguments->rounds, arguments->rounds);
    return status == TUTTI_OK ? finish(overlap, rounds, iterations) : status;
}

static bool table_init(struct table *table, int length)
{
    table->length = (size_t)length;
    table->values = calloc(FIGURE_COUNT * table->length, sizeof *table->values);
    return table->values != NULL;
}

static tutti_status run_rounds(struct overlap *overlap)
{
    struct job *job = overlap->work.job;
    int per_round = job->arguments->iterations;
    struct table rounds = { .values = NULL };
    struct table iterations = { .values = NULL };
    tutti_status status;

    if (!table_init(&rounds, job->arguments->rounds) ||
            !table_init(&iterations, per_round == 0 ? 5 : per_round)) {
        status = job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating rounds");
    } else {
        status = measure_rounds(overlap, &rounds, &iterations);
    }
    free(rounds.values);
    free(iterations.values);
    return status;
}

/* All ranks do the same amount: T ms of arithmetic at the mean of their speeds. */
static uint64_t calibrate(const struct job *job)
{
    double rate;

    job_barrier();
    rate = bench_arithmetic_rate() / job->size;
    job_sum(&rate, 1);
    return (uint64_t)(rate * job->arguments->backward_ms) + 1;
}

static void add_phase(struct overlap *overlap, enum phase phase)
{
    overlap->phases[overlap->phase_count++] = phase;
}

static tutti_status open_works(
        struct overlap *overlap, struct job *job, const struct bench_workload *tensors)
{
    tutti_status status = work_open(&overlap->work, job, tensors, true);

    if (status != TUTTI_OK) {
        return status;
    }
    add_phase(overlap, PHASE_OVERLAPPED);
    add_phase(overlap, PHASE_UNOVERLAPPED);
    if (compares_slow(overlap)) {
        add_phase(overlap, PHASE_SLOW);
        status = work_open_slow(&overlap->slow, &overlap->work);
    }
    if (overlap->on_cpu) {
        add_phase(overlap, PHASE_ALONE);
    }
    if (status != TUTTI_OK) {
        work_close(&overlap->work);
    }
    return status;
}

static tutti_status measure_overlap(
        struct job *job, const struct bench_workload *tensors)
{
    const struct bench_arguments *arguments = job->arguments;
    struct overlap overlap = {
        .layers = bench_workload_layers(tensors),
        .on_cpu = arguments->compute == BENCH_CPU,
        .pass_us = arguments->backward_ms * 1e3,
    };
    tutti_status status;
    char what[128];

    (void)snprintf(what, sizeof what,
            "%s: %zu tensors of %zu layers during a backward pass of %g ms on the %s",
            tensors->name, tensors->count, overlap.layers, arguments->backward_ms,
            overlap.on_cpu ? "cpu" : "device");
    job_print_head(job, what);
    status = open_works(&overlap, job, tensors);
    if (status != TUTTI_OK) {
        return status;
    }
    overlap.units = overlap.on_cpu ? calibrate(job) : 0;
    status = run_rounds(&overlap);
    work_close(&overlap.work);
    work_close(&overlap.slow);
    return status;
}

tutti_status run_overlap(struct job *job)
{
    struct bench_workload tensors;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init(&tensors, job->arguments->gradients)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    if (work_fits(job, &tensors, 1)) {
        status = measure_overlap(job, &tensors);
    }
    bench_workload_fini(&tensors);
    return status;
}
