/*
 * overlap: communication during a backward pass.
 *
 * The pass takes T ms in as many equal parts as there are layers, last layer first; after
 * its part a layer's gradients are submitted, and at the end all are waited for. On a
 * "device" the thread sleeps until the layer is due, as beside a GPU; on the "cpu" it does
 * a fixed amount of arithmetic. Exposed communication is what the step takes beyond the
 * pass alone: beyond T, or beyond the same arithmetic measured by itself. Both are
 * compared with the same tensors submitted at once beside nothing else.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/tutti.h>

#include "bench/commands.h"
#include "bench/core/arithmetic.h"
#include "bench/measure.h"

/* The three things that are timed, in turn. */
enum phase {
    PHASE_OVERLAPPED,
    PHASE_UNOVERLAPPED,
    PHASE_ALONE,
    PHASE_COUNT
};

struct overlap {
    struct work work;
    size_t layers;
    bool on_cpu;
    double pass_us; /* device: T */
    uint64_t units; /* cpu: arithmetic of the whole pass */
    double arithmetic_us; /* cpu: spent in it by the last step */
    double proof; /* results of the arithmetic, never used */
};

/* Per round, all owned by one block. */
struct rounds {
    double *phase[PHASE_COUNT]; /* time of a step */
    double *slowed; /* arithmetic inside the step */
    double *exposed; /* step - pass alone */
    double *exposed_ratio; /* exposed / unoverlapped */
    double *slowdown; /* slowed / arithmetic alone */
};

enum {
    SERIES = PHASE_COUNT + 4
};

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

static tutti_status step_overlapped(struct overlap *overlap)
{
    const struct bench_workload *tensors = overlap->work.tensors;
    double start = bench_now_us();
    size_t done = 0;
    tutti_status status = TUTTI_OK;

    for (size_t layer = 0; done < tensors->count && status == TUTTI_OK; layer++) {
        size_t next = bench_workload_next_layer(tensors, done);

        compute_layer(overlap, layer, start);
        status = work_submit(&overlap->work, done, next);
        done = next;
    }
    return status == TUTTI_OK ? work_wait(&overlap->work) : status;
}

static tutti_status step(struct overlap *overlap, enum phase phase)
{
    overlap->arithmetic_us = 0;
    switch (phase) {
    case PHASE_OVERLAPPED:
        return step_overlapped(overlap);
    case PHASE_UNOVERLAPPED:
        return work_step_tutti(&overlap->work);
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

/* Steps of one phase: medians of their time and of the arithmetic in them. */
static tutti_status run_phase(
        struct overlap *overlap, enum phase phase, int iterations, double figures[2])
{
    double *samples = calloc(2 * (size_t)iterations, sizeof *samples);
    struct job *job = overlap->work.job;
    tutti_status status = TUTTI_OK;

    if (samples == NULL) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating samples");
    }
    for (int i = 0; i < iterations && status == TUTTI_OK; i++) {
        double start;

        job_barrier();
        start = bench_now_us();
        status = step(overlap, phase);
        samples[i] = bench_now_us() - start;
        samples[iterations + i] = overlap->arithmetic_us;
    }
    if (status == TUTTI_OK) {
        figures[0] = bench_summarise(samples, (size_t)iterations).median;
        figures[1] = bench_summarise(samples + iterations, (size_t)iterations).median;
        job_combine(job, figures, 2);
    }
    free(samples);
    return status;
}

static tutti_status run_round(
        struct overlap *overlap, struct rounds *rounds, int round, int iterations)
{
    int phases = overlap->on_cpu ? PHASE_COUNT : PHASE_ALONE;
    double alone = overlap->pass_us;

    for (int turn = 0; turn < phases; turn++) {
        enum phase phase = (enum phase)((round + turn) % phases);
        double figures[2];
        tutti_status status = run_phase(overlap, phase, iterations, figures);

        if (status != TUTTI_OK) {
            return status;
        }
        rounds->phase[phase][round] = figures[0];
        if (phase == PHASE_OVERLAPPED) {
            rounds->slowed[round] = figures[1];
        }
    }
    if (overlap->on_cpu) {
        alone = rounds->phase[PHASE_ALONE][round];
    }
    rounds->exposed[round] = rounds->phase[PHASE_OVERLAPPED][round] - alone;
    rounds->exposed_ratio[round] =
            rounds->exposed[round] / rounds->phase[PHASE_UNOVERLAPPED][round];
    rounds->slowdown[round] = rounds->slowed[round] / alone;
    return TUTTI_OK;
}

/* The results of the overlapped step are checked, not those of an easier one. */
static tutti_status check(struct overlap *overlap, int64_t *wrong)
{
    int checks = overlap->work.job->arguments->checks;
    int64_t total = 0;

    for (int i = 0; i < checks; i++) {
        tutti_status status;

        work_fill(&overlap->work);
        status = step(overlap, PHASE_OVERLAPPED);
        if (status != TUTTI_OK) {
            return status;
        }
        total += work_count_wrong(&overlap->work);
    }
    *wrong = checks == 0 ? -1 : job_count_wrong(overlap->work.job, total);
    return TUTTI_OK;
}

/* Medians over the rounds, in microseconds where it is a time. */
struct figures {
    double step, unoverlapped, exposed;
    struct bench_summary exposed_ratio;
    double arithmetic; /* alone; cpu only */
    double slowdown; /* cpu only */
    int64_t wrong; /* -1: not checked */
};

static double median(double *series, const struct job *job)
{
    return bench_summarise(series, (size_t)job->arguments->rounds).median;
}

/* Sorts the series. */
static struct figures conclude(
        const struct job *job, const struct rounds *rounds, int64_t wrong)
{
    return (struct figures){
        .step = median(rounds->phase[PHASE_OVERLAPPED], job),
        .unoverlapped = median(rounds->phase[PHASE_UNOVERLAPPED], job),
        .exposed = median(rounds->exposed, job),
        .exposed_ratio =
                bench_summarise(rounds->exposed_ratio, (size_t)job->arguments->rounds),
        .arithmetic = median(rounds->phase[PHASE_ALONE], job),
        .slowdown = median(rounds->slowdown, job),
        .wrong = wrong,
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
        (void)printf("  %-28s %11.3f ms   %.3f times as long in the step\n",
                "arithmetic, alone", figures->arithmetic / 1e3, figures->slowdown);
    }
    (void)printf("  %-28s %11lld\n", "#wrong", (long long)figures->wrong);
}

static void report(const struct overlap *overlap, const struct figures *figures)
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
        bench_json_number(&json, "arithmetic_us", figures->arithmetic);
        bench_json_number(&json, "slowdown", figures->slowdown);
    }
    job_row_write(job, &json);
}

static tutti_status measure_rounds(struct overlap *overlap, struct rounds *rounds)
{
    struct job *job = overlap->work.job;
    const struct bench_arguments *arguments = job->arguments;
    int iterations = arguments->iterations == 0 ? 5 : arguments->iterations;
    int warmup = arguments->warmup < 0 ? 5 : arguments->warmup;
    tutti_status status = TUTTI_OK;
    int64_t wrong;

    for (int i = 0; i < warmup && status == TUTTI_OK; i++) {
        status = step(overlap, i == 0 ? PHASE_OVERLAPPED : PHASE_UNOVERLAPPED);
    }
    for (int round = 0; round < arguments->rounds && status == TUTTI_OK; round++) {
        job_progress(job, overlap->work.tensors->name, round, arguments->rounds);
        status = run_round(overlap, rounds, round, iterations);
    }
    job_progress(job, "", arguments->rounds, arguments->rounds);
    if (status == TUTTI_OK) {
        status = check(overlap, &wrong);
    }
    if (status == TUTTI_OK) {
        struct figures figures = conclude(job, rounds, wrong);

        report(overlap, &figures);
    }
    return status;
}

static tutti_status run_rounds(struct overlap *overlap)
{
    struct job *job = overlap->work.job;
    size_t count = (size_t)job->arguments->rounds;
    double *block = calloc(SERIES * count, sizeof *block);
    struct rounds rounds;
    tutti_status status;

    if (block == NULL) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating rounds");
    }
    for (size_t phase = 0; phase < PHASE_COUNT; phase++) {
        rounds.phase[phase] = block + phase * count;
    }
    rounds.slowed = block + PHASE_COUNT * count;
    rounds.exposed = rounds.slowed + count;
    rounds.exposed_ratio = rounds.exposed + count;
    rounds.slowdown = rounds.exposed_ratio + count;
    status = measure_rounds(overlap, &rounds);
    free(block);
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
    status = work_open(&overlap.work, job, tensors, true);
    if (status != TUTTI_OK) {
        return status;
    }
    overlap.units = overlap.on_cpu ? calibrate(job) : 0;
    status = run_rounds(&overlap);
    work_close(&overlap.work);
    return status;
}

tutti_status run_overlap(struct job *job)
{
    struct bench_workload tensors;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init(&tensors, job->arguments->name)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    if (work_fits(job, &tensors, true)) {
        status = measure_overlap(job, &tensors);
    }
    bench_workload_fini(&tensors);
    return status;
}
