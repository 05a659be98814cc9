/*
 * latency: one operation at a time, from its submission to its completion.
 */
#include <inttypes.h>
#include <string.h>

#include "bench/commands.h"
#include "bench/core/sizes.h"
#include "bench/measure.h"

static void print_head(int compare)
{
    (void)printf("# %11s %8s %10s %10s %10s %7s", "size", "complete", "min", "median",
            "p99", "#wrong");
    for (const struct rival *r = rivals; r->name != NULL; r++) {
        if ((compare & r->compare) != 0) {
            (void)printf(" %10s %10s %10s   tutti / %s (min..max)", r->title, "median",
                    "p99", r->name);
        }
    }
    (void)printf(
            "\n# %11s %8s %10s %10s %10s %7s", "(B)", "", "(us)", "(us)", "(us)", "");
    for (const struct rival *r = rivals; r->name != NULL; r++) {
        if ((compare & r->compare) != 0) {
            (void)printf(" %10s %10s %10s   %8s%*s           ", "min (us)", "(us)",
                    "(us)", "", (int)strlen(r->name), "");
        }
    }
    (void)printf("\n");
}

static void print_compared(const struct side_result *side)
{
    if (side->measured) {
        (void)printf(" %10.2f %10.2f %10.2f   %.2f (%.2f..%.2f)", side->min,
                side->typical, side->p99, side->ratio.median, side->ratio.min,
                side->ratio.max);
    }
}

static void print_row(
        const struct work *work, uint64_t bytes, const struct measurement *result)
{
    const struct side_result *own = &result->side[SIDE_TUTTI];

    (void)printf("  %11" PRIu64 " %8s %10.2f %10.2f %10.2f %7" PRId64, bytes,
            bench_complete_name(work->complete), own->min, own->typical, own->p99,
            own->wrong);
    for (const struct rival *r = rivals; r->name != NULL; r++) {
        print_compared(&result->side[r->side]);
    }
    (void)printf("\n");
    (void)fflush(stdout);
}

static tutti_status measure_size(
        struct job *job, const struct bench_workload *tensors, uint64_t bytes)
{
    struct effort effort = effort_for(job, bytes);
    struct measurement result;
    struct bench_json json;
    struct work work;
    tutti_status status = work_open(&work, job, tensors, true);

    if (status != TUTTI_OK) {
        return status;
    }
    status = measure(&work, &effort, &result);
    if (status == TUTTI_OK) {
        job_row_start(job, &json);
        measure_to_json(&json, &work, &effort, &result);
        job_row_write(job, &json);
        if (job->rank == 0) {
            print_row(&work, bytes, &result);
        }
        measure_print_doubts(job, &result);
    }
    work_close(&work);
    return status;
}

static tutti_status run_size(struct job *job, uint64_t bytes)
{
    size_t element = bench_dtype_bytes((tutti_dtype)job->arguments->dtype);
    struct bench_workload tensors;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init_uniform(&tensors, 1, bytes / element)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    bench_workload_pad(
            &tensors, (tutti_collective)job->arguments->collective, job->size);
    if (work_fits(job, &tensors, 1)) {
        status = measure_size(job, &tensors, tensors.elements * element);
    }
    bench_workload_fini(&tensors);
    return status;
}

tutti_status run_latency(struct job *job)
{
    const struct bench_arguments *arguments = job->arguments;
    struct bench_sweep sweep = {
        .first = arguments->min_bytes,
        .last = arguments->max_bytes,
        .factor = (uint64_t)arguments->factor,
        .step = arguments->step_bytes,
    };
    uint64_t bytes = sweep.first;
    tutti_status status;

    job_print_head(job, "one operation at a time, submission to completion");
    if (job->rank == 0) {
        print_head(arguments->compare);
    }
    do {
        status = run_size(job, bytes);
    } while (status == TUTTI_OK && !job->left_out && bench_sweep_next(&sweep, &bytes));
    return status;
}
