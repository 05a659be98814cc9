/*
 * steady: what a training step asks of the system once everything has its place.
 *
 * After the warm-up every rank reads its accounts, does the timed steps and reads them
 * again, with nothing else in between. The two calls of getrusage() are also the marks
 * between which script/bench shm counts system calls in the output of strace.
 */
#include <sys/resource.h>

#include "bench/allocations.h"
#include "bench/commands.h"
#include "bench/core/arithmetic.h"
#include "bench/work.h"

enum {
    STEADY_STEPS = 100,
    STEADY_WARMUP = 100
};

/* What is counted, in the order of the report. */
enum account {
    BY_TUTTI,
    BY_OTHERS,
    MINOR_FAULTS,
    MAJOR_FAULTS,
    SWITCHES,
    ACCOUNT_COUNT
};

static const struct {
    const char *label;
    const char *key; /* in JSON */
} accounts[ACCOUNT_COUNT] = {
    [BY_TUTTI] = { "allocations by tutti", "allocations" },
    [BY_OTHERS] = { "allocations by others (MPI)", "allocations_others" },
    [MINOR_FAULTS] = { "page faults", "page_faults" },
    [MAJOR_FAULTS] = { "page faults with I/O", "page_faults_io" },
    [SWITCHES] = { "context switches", "context_switches" },
};

static void read_accounts(double values[ACCOUNT_COUNT])
{
    struct allocations allocations = allocations_now();
    struct rusage usage = { .ru_minflt = 0 };

    (void)getrusage(RUSAGE_SELF, &usage);
    values[BY_TUTTI] = (double)allocations.by_tutti;
    values[BY_OTHERS] = (double)allocations.by_others;
    values[MINOR_FAULTS] = (double)usage.ru_minflt;
    values[MAJOR_FAULTS] = (double)usage.ru_majflt;
    values[SWITCHES] = (double)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static tutti_status run_steps(struct work *work, int steps)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < steps && status == TUTTI_OK; i++) {
        status = work_step_tutti(work);
    }
    return status;
}

static void report(const struct work *work, int steps, double step_us,
        const double sum[ACCOUNT_COUNT])
{
    const struct job *job = work->job;
    const bool counted = allocations_now().by_tutti >= 0;
    struct bench_json json;

    job_row_start(job, &json);
    bench_json_text(&json, "workload", work->tensors->name);
    work_to_json(&json, work);
    bench_json_integer(&json, "steps", steps);
    bench_json_number(&json, "tutti_us", step_us);
    for (size_t i = 0; i < ACCOUNT_COUNT; i++) {
        if (i <= BY_OTHERS && !counted) {
            bench_json_null(&json, accounts[i].key);
        } else {
            bench_json_number(&json, accounts[i].key, sum[i]);
        }
    }
    job_row_write(job, &json);
    if (job->rank != 0) {
        return;
    }
    (void)printf("# %-28s %12s %12s\n", "", "all ranks", "per step");
    for (size_t i = 0; i < ACCOUNT_COUNT; i++) {
        if (i <= BY_OTHERS && !counted) {
            (void)printf("  %-28s %12s %12s\n", accounts[i].label, "not counted", "-");
        } else {
            (void)printf("  %-28s %12.0f %12.3f\n", accounts[i].label, sum[i],
                    sum[i] / steps);
        }
    }
    (void)printf("  %-28s %12s %12.3f ms\n", "time", "", step_us / 1e3);
}

static tutti_status watch(struct work *work)
{
    const struct bench_arguments *arguments = work->job->arguments;
    int steps = arguments->iterations == 0 ? STEADY_STEPS : arguments->iterations;
    int warmup = arguments->warmup < 0 ? STEADY_WARMUP : arguments->warmup;
    double before[ACCOUNT_COUNT];
    double after[ACCOUNT_COUNT];
    double took_us;
    tutti_status status = run_steps(work, warmup);

    allocations_count();
    read_accounts(before);
    took_us = -bench_now_us();
    if (status == TUTTI_OK) {
        status = run_steps(work, steps);
    }
    took_us += bench_now_us();
    read_accounts(after);
    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t i = 0; i < ACCOUNT_COUNT; i++) {
        after[i] -= before[i];
    }
    took_us /= steps;
    job_sum(after, ACCOUNT_COUNT);
    job_combine(work->job, &took_us, 1);
    report(work, steps, took_us, after);
    return TUTTI_OK;
}

tutti_status run_steady(struct job *job)
{
    struct bench_workload tensors;
    struct work work;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init(&tensors, job->arguments->gradients)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    job_print_head(job, "what steps in the steady state ask of the system");
    if (work_fits(job, &tensors, 1)) {
        status = work_open(&work, job, &tensors, true);
        if (status == TUTTI_OK) {
            status = watch(&work);
            work_close(&work);
        }
    }
    bench_workload_fini(&tensors);
    return status;
}
