/*
 * idle: what the library costs while nobody asks it for anything.
 *
 * After some steps on the world and on two more process sets, every rank sleeps once and
 * reads its own accounts before and after. The sleep itself is one context switch, which
 * is taken off; nothing else of the bench runs in between, MPI included.
 *
 * Then all ranks wait for the last one, which comes a second late, several times.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/commands.h"
#include "bench/core/arithmetic.h"

enum {
    STEPS = 100,
    TENSORS = 16,
    ELEMENTS = 256,
    LATE_STEPS = 5
};

/* What a process has used so far. */
struct usage {
    double cpu_us;
    double switches; /* voluntary and not */
    double now_us;
};

/* The two extra sets: all ranks backwards, and the lower half. */
struct sets {
    tutti_process_set backwards, half;
    bool in_half;
};

static struct usage usage_now(void)
{
    struct rusage usage = { .ru_nvcsw = 0 };

    (void)getrusage(RUSAGE_SELF, &usage);
    return (struct usage){
        .cpu_us = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec),
        .switches = (double)(usage.ru_nvcsw + usage.ru_nivcsw),
        .now_us = bench_now_us(),
    };
}

static void sleep_seconds(double seconds)
{
    struct timespec length = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
    };

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
}

static tutti_status create_sets(struct job *job, struct sets *sets)
{
    int half = (job->size + 1) / 2;
    int *ranks = calloc((size_t)job->size, sizeof *ranks);
    tutti_status status;

    if (ranks == NULL) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating ranks");
    }
    for (int i = 0; i < job->size; i++) {
        ranks[i] = job->size - 1 - i;
    }
    status = tutti_process_set_create(job->t, ranks, job->size, &sets->backwards);
    for (int i = 0; i < half; i++) {
        ranks[i] = i;
    }
    if (status == TUTTI_OK) {
        status = tutti_process_set_create(job->t, ranks, half, &sets->half);
    }
    sets->in_half = job->rank < half;
    free(ranks);
    return status == TUTTI_OK ? TUTTI_OK
                              : job_failed(job, status, "creating process sets");
}

/* Sums one row of `data` per tensor over a set and waits for all. */
static tutti_status reduce_rows(struct job *job, tutti_process_set set, float *data)
{
    tutti_request requests[TENSORS];
    tutti_options options;
    tutti_status status = TUTTI_OK;

    tutti_options_default(&options);
    options.process_set = set;
    for (int i = 0; i < TENSORS && status == TUTTI_OK; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "idle/%d", i);
        status = tutti_allreduce_async(job->t, name, data + (size_t)i * ELEMENTS,
                data + (size_t)i * ELEMENTS, ELEMENTS, TUTTI_FLOAT32, TUTTI_MAX,
                &options, &requests[i]);
    }
    if (status == TUTTI_OK) {
        status = tutti_wait_all(job->t, TENSORS, requests, TUTTI_FOREVER, NULL);
    }
    return status == TUTTI_OK ? TUTTI_OK : job_failed(job, status, "reducing");
}

static tutti_status run_steps(struct job *job, const struct sets *sets)
{
    float *data = calloc((size_t)TENSORS * ELEMENTS, sizeof *data);
    tutti_status status = TUTTI_OK;

    if (data == NULL) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating buffers");
    }
    for (int step = 0; step < STEPS && status == TUTTI_OK; step++) {
        status = reduce_rows(job, TUTTI_WORLD, data);
        if (status == TUTTI_OK) {
            status = reduce_rows(job, sets->backwards, data);
        }
        if (status == TUTTI_OK && sets->in_half) {
            status = reduce_rows(job, sets->half, data);
        }
    }
    free(data);
    return status;
}

/*
 * The last rank comes to a sum a second late, over and over. The first times teach the library
 * how its messages come.
 * @param[out] percent  of a core, what the rank that waits has used in the later half
 */
static tutti_status wait_for_a_late_rank(struct job *job, double *percent)
{
    struct usage before = usage_now();
    struct usage after;
    float value = 0;
    tutti_status status = TUTTI_OK;

    for (int step = 0; step < 2 * LATE_STEPS && status == TUTTI_OK; step++) {
        before = step == LATE_STEPS ? usage_now() : before;
        if (job->rank == job->size - 1) {
            sleep_seconds(1);
        }
        status = tutti_allreduce(
                job->t, "idle/late", &value, &value, 1, TUTTI_FLOAT32, TUTTI_MAX, NULL);
    }
    after = usage_now();
    *percent = job->rank == job->size - 1
            ? 0
            : 100 * (after.cpu_us - before.cpu_us) / (after.now_us - before.now_us);
    job_combine(job, percent, 1);
    return status == TUTTI_OK ? TUTTI_OK
                              : job_failed(job, status, "waiting for a late rank");
}

/* Prints and records the worst rank and the sum over ranks. */
static void report(
        struct job *job, const double worst[2], const double sum[2], double late)
{
    struct bench_json json;

    if (job->rank == 0) {
        (void)printf("# %-16s %12s %26s\n", "", "cpu (%)", "context switches (1/s)");
        (void)printf("  %-16s %12.4f %26.3f\n", "worst rank", worst[0], worst[1]);
        (void)printf("  %-16s %12.4f %26.3f\n", "all ranks", sum[0], sum[1]);
        (void)printf("  %-16s %12.4f\n", "for a late rank", late);
    }
    job_row_start(job, &json);
    bench_json_number(&json, "seconds", job->arguments->seconds);
    bench_json_number(&json, "cpu_percent", worst[0]);
    bench_json_number(&json, "context_switches_per_s", worst[1]);
    bench_json_number(&json, "cpu_percent_late", late);
    bench_json_number(&json, "cpu_percent_sum", sum[0]);
    bench_json_number(&json, "context_switches_per_s_sum", sum[1]);
    job_row_write(job, &json);
}

static tutti_status watch(struct job *job)
{
    double late = 0;
    tutti_status status;
    struct usage before;
    struct usage after;
    double worst[2];
    double sum[2];
    double elapsed_us;

    job_barrier();
    sleep_seconds(0.2); /* what the barrier and the last step still set off */
    before = usage_now();
    sleep_seconds(job->arguments->seconds);
    after = usage_now();
    job_barrier();

    elapsed_us = after.now_us - before.now_us;
    worst[0] = 100 * (after.cpu_us - before.cpu_us) / elapsed_us;
    worst[1] = (after.switches - before.switches - 1) * 1e6 / elapsed_us;
    sum[0] = worst[0];
    sum[1] = worst[1];
    job_combine(job, worst, 2);
    job_sum(sum, 2);
    status = job->size > 1 ? wait_for_a_late_rank(job, &late) : TUTTI_OK;
    report(job, worst, sum, late);
    return status;
}

tutti_status run_idle(struct job *job)
{
    struct sets sets = { .in_half = false };
    tutti_status status;

    job_print_head(job, "idle after 100 steps on the world and two more process sets");
    status = create_sets(job, &sets);
    if (status == TUTTI_OK) {
        status = run_steps(job, &sets);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = watch(job);
    if (status == TUTTI_OK) {
        status = tutti_process_set_destroy(job->t, sets.half);
    }
    if (status == TUTTI_OK) {
        status = tutti_process_set_destroy(job->t, sets.backwards);
    }
    return status == TUTTI_OK ? TUTTI_OK
                              : job_failed(job, status, "removing process sets");
}
