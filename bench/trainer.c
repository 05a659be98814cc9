/*
 * workload trainer: a training loop with what real ones have beside their gradients.
 *
 * A step has a loss, averaged under a new name each time; a backward pass of T ms whose
 * layers are submitted as they become ready, from the back, out of two sets of buffers by
 * turns, and whose end is noticed as --complete says: with callbacks the thread computes,
 * submits a layer, computes on, and sleeps in the end until the last has called; and now and then one more micro step, metrics, an evaluation, a rank that is
 * late. Which step has what is said in core/program.h.
 */
#include <math.h>
#include <time.h>

#include "bench/core/arithmetic.h"
#include "bench/core/program.h"
#include "bench/workload.h"

enum {
    METRICS = 3,
    EVALUATIONS = 8,
    WARMUP_STEPS = 5,
    LATE_NS = 3000000,
    NAME_MAX = 48
};

/* What is averaged beside the gradients: one number of each rank. */
struct scalar {
    float value;
    float expected; /* the average */
    tutti_request request;
};

/* What the steps need. */
struct training_program {
    double pass_us; /* T */
    size_t layers;
    int64_t *wrong; /* averages of scalars; the sides of a comparison share it */
};

/* Occupies the core, as a backward pass does. */
static void compute_until(double when_us)
{
    while (bench_now_us() < when_us) {
        (void)bench_arithmetic(1);
    }
}

/* --------------------------------------------------------------- scalars */

/* The averages differ from step to step and from name to name. */
static tutti_status submit_scalar(
        const struct work *work, struct scalar *scalar, const char *name, uint64_t seed)
{
    const float base = (float)(seed % 1000);
    tutti_status status;

    *scalar = (struct scalar){
        .value = base + (float)work->job->rank,
        .expected = base + (float)(work->job->size - 1) / 2,
    };
    status = tutti_allreduce_async(work->t, name, &scalar->value, &scalar->value, 1,
            TUTTI_FLOAT32, TUTTI_AVERAGE, NULL, &scalar->request);
    return status == TUTTI_OK ? TUTTI_OK : job_failed(work->job, status, name);
}

static tutti_status wait_scalar(
        const struct work *work, struct scalar *scalar, const char *name)
{
    const struct training_program *program = work->program;
    tutti_status status = tutti_wait(work->t, &scalar->request, TUTTI_FOREVER);

    if (status != TUTTI_OK) {
        return job_failed(work->job, status, name);
    }
    if (!(fabsf(scalar->value - scalar->expected) <= 1e-4F * scalar->expected)) {
        (*program->wrong)++;
    }
    return TUTTI_OK;
}

/* All at once, as metrics are. */
static tutti_status average_metrics(const struct work *work)
{
    static const char *const names[METRICS] = { "trainer/accuracy", "trainer/norm",
        "trainer/rate" };
    struct scalar metrics[METRICS];
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < METRICS && status == TUTTI_OK; i++) {
        status = submit_scalar(work, &metrics[i], names[i], work->steps + i);
    }
    for (size_t i = 0; i < METRICS && status == TUTTI_OK; i++) {
        status = wait_scalar(work, &metrics[i], names[i]);
    }
    return status;
}

/* One after the other. */
static tutti_status evaluate(const struct work *work)
{
    tutti_status status = TUTTI_OK;

    for (uint64_t i = 0; i < EVALUATIONS && status == TUTTI_OK; i++) {
        struct scalar average;
        char name[NAME_MAX];

        (void)snprintf(name, sizeof name, "trainer/evaluation.%d", (int)i);
        status = submit_scalar(work, &average, name, 2 * work->steps + i);
        if (status == TUTTI_OK) {
            status = wait_scalar(work, &average, name);
        }
    }
    return status;
}

/* ----------------------------------------------------------------- steps */

/* Does the backward pass and waits for what it has submitted. */
static tutti_status run_backward(struct work *work)
{
    const struct training_program *program = work->program;
    const double start = bench_now_us();
    const double layer_us = program->pass_us / (double)program->layers;
    tutti_status status = TUTTI_OK;
    size_t done = 0;

    for (size_t layer = 1; done < work->tensors->count && status == TUTTI_OK; layer++) {
        size_t next = bench_workload_next_layer(work->tensors, done);

        compute_until(start + (double)layer * layer_us);
        status = work_submit(work, done, next);
        done = next;
    }
    if (status == TUTTI_OK) {
        const double computed_us = bench_now_us();

        status = work_wait(work);
        work->tail_us += bench_now_us() - computed_us;
    }
    return status;
}

/* The gradients of a micro step stay on the rank; only its loss travels. */
static tutti_status run_micro_step(const struct work *work)
{
    static const char name[] = "trainer/micro";
    const struct training_program *program = work->program;
    struct scalar loss;
    tutti_status status;

    compute_until(bench_now_us() + program->pass_us);
    status = submit_scalar(work, &loss, name, 3 * work->steps);
    return status == TUTTI_OK ? wait_scalar(work, &loss, name) : status;
}

/* The loss is on its way during the backward pass. */
static tutti_status run_gradients(struct work *work)
{
    struct scalar loss;
    char name[NAME_MAX];
    tutti_status status;

    (void)snprintf(
            name, sizeof name, "trainer/loss.%llu", (unsigned long long)work->steps);
    status = submit_scalar(work, &loss, name, work->steps);
    if (status == TUTTI_OK) {
        status = run_backward(work);
    }
    return status == TUTTI_OK ? wait_scalar(work, &loss, name) : status;
}

static tutti_status step_trainer(struct work *work)
{
    const struct timespec late = { .tv_nsec = LATE_NS };
    const struct bench_training training = bench_training_at(work->steps++);
    tutti_status status = TUTTI_OK;

    work_alternate(work);
    if (training.straggles && work->job->rank == 0) {
        (void)nanosleep(&late, NULL);
    }
    if (training.accumulates) {
        status = run_micro_step(work);
    }
    if (status == TUTTI_OK) {
        status = run_gradients(work);
    }
    if (status == TUTTI_OK && training.measures) {
        status = average_metrics(work);
    }
    if (status == TUTTI_OK && training.evaluates) {
        status = evaluate(work);
    }
    return status;
}

/* ---------------------------------------------------------------- report */

static void print_figures(const struct measurement *result)
{
    const struct side_result *own = &result->side[SIDE_TUTTI];
    const struct side_result *slow = &result->side[SIDE_SLOW];
    const struct side_result *wait = &result->side[SIDE_WAIT];

    (void)printf("  %-28s %11.3f ms\n", "step", own->typical / 1e3);
    if (slow->measured) {
        (void)printf("  %-28s %11.3f ms   tutti / slow %.3f (%.3f..%.3f)\n",
                "step with --slow", slow->typical / 1e3, slow->ratio.median,
                slow->ratio.min, slow->ratio.max);
    }
    if (wait->measured) {
        (void)printf("  %-28s %11.3f ms   tutti / wait %.3f (%.3f..%.3f)\n",
                "step that is waited for", wait->typical / 1e3, wait->ratio.median,
                wait->ratio.min, wait->ratio.max);
    }
    (void)printf("  %-28s %11.3f ms", "after the backward pass", own->tail / 1e3);
    if (wait->measured) {
        (void)printf("   where it is waited for %.3f ms", wait->tail / 1e3);
    }
    (void)printf("\n  %-28s %11lld\n", "#wrong", (long long)own->wrong);
}

static void report(const struct work *work, const struct effort *effort,
        const struct measurement *result)
{
    const struct job *job = work->job;
    struct bench_json json;

    job_row_start(job, &json);
    bench_json_text(&json, "workload", "trainer");
    bench_json_text(&json, "gradients", work->tensors->name);
    bench_json_number(&json, "backward_ms", job->arguments->backward_ms);
    measure_to_json(&json, work, effort, result);
    bench_json_number(&json, "tail_us", result->side[SIDE_TUTTI].tail);
    if (result->side[SIDE_WAIT].measured) {
        bench_json_number(&json, "wait_tail_us", result->side[SIDE_WAIT].tail);
    }
    job_row_write(job, &json);
    if (job->rank == 0) {
        print_figures(result);
    }
}

/* The mean over steps that have everything in its share. */
static struct effort training_effort(const struct job *job)
{
    struct effort effort = effort_for(job, 0);

    if (job->arguments->iterations == 0) {
        effort.iterations = BENCH_TRAINING_PERIOD;
    }
    if (job->arguments->warmup < 0) {
        effort.warmup = WARMUP_STEPS;
    }
    effort.mean = true;
    effort.exact = true;
    return effort;
}

static tutti_status measure_training(struct work *work)
{
    const struct training_program *program = work->program;
    struct job *job = work->job;
    struct effort effort = training_effort(job);
    struct measurement result;
    tutti_status status = measure(work, &effort, &result);

    if (status == TUTTI_OK) {
        const int64_t wrong = job_count_wrong(job, *program->wrong);

        /* scalars are always checked; -1 says that the gradients were not */
        if (job->arguments->checks > 0) {
            result.side[SIDE_TUTTI].wrong += wrong;
        }
        report(work, &effort, &result);
    }
    return status;
}

static tutti_status run_tensors(struct job *job, const struct bench_workload *tensors)
{
    int64_t wrong = 0;
    const struct training_program program = {
        .pass_us = job->arguments->backward_ms * 1e3,
        .layers = bench_workload_layers(tensors),
        .wrong = &wrong,
    };
    struct work work;
    tutti_status status;
    char what[128];

    (void)snprintf(what, sizeof what,
            "trainer: %s, %zu tensors of %zu layers, a backward pass of %g ms; mean "
            "per "
            "step",
            tensors->name, tensors->count, program.layers, job->arguments->backward_ms);
    job_print_head(job, what);
    status = work_open_alternating(&work, job, tensors);
    if (status == TUTTI_OK) {
        work.step = step_trainer;
        work.program = &program;
        status = measure_training(&work);
        work_close(&work);
    }
    return status;
}

tutti_status workload_trainer(struct job *job)
{
    struct bench_workload tensors;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init(&tensors, job->arguments->gradients)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    if (work_fits(job, &tensors, 2)) {
        status = run_tensors(job, &tensors);
    }
    bench_workload_fini(&tensors);
    return status;
}
