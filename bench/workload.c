/*
 * workload: the gradients of a network, all submitted in reverse order, then waited for.
 */
#include <string.h>

#include "bench/commands.h"
#include "bench/measure.h"

static void print_head(int compare)
{
    bool mpi = (compare & BENCH_WITH_ANY_MPI) != 0;
    bool limit = (compare & BENCH_WITH_LIMIT) != 0;

    (void)printf("# %-12s %8s %10s %11s %11s %7s%s%s\n", "workload", "tensors", "MB",
            "min", "median", "#wrong",
            mpi ? "     raw MPI   tutti / MPI (min..max)" : "",
            limit ? "       limit   tutti / limit (min..max)" : "");
    (void)printf("# %-12s %8s %10s %11s %11s %7s%s%s\n", "", "", "", "(ms)", "(ms)", "",
            mpi ? "        (ms)                         " : "",
            limit ? "        (ms)" : "");
}

static void print_compared(const struct side_result *side)
{
    if (side->measured) {
        (void)printf(" %11.3f   %.2f (%.2f..%.2f)", side->typical / 1e3,
                side->ratio.median, side->ratio.min, side->ratio.max);
    }
}

static void print_row(const struct work *work, const struct measurement *result)
{
    const struct bench_workload *tensors = work->tensors;
    const struct side_result *own = &result->side[SIDE_TUTTI];

    (void)printf("  %-12s %8zu %10.2f %11.3f %11.3f %7lld", tensors->name,
            tensors->count,
            (double)tensors->elements * (double)work->pattern.element_bytes / 1e6,
            own->min / 1e3, own->typical / 1e3, (long long)own->wrong);
    print_compared(&result->side[SIDE_MPI]);
    print_compared(&result->side[SIDE_LIMIT]);
    (void)printf("\n");
    (void)fflush(stdout);
}

static tutti_status measure_workload(
        struct job *job, const struct bench_workload *tensors)
{
    size_t element = bench_dtype_bytes((tutti_dtype)job->arguments->dtype);
    struct effort effort = effort_for(job, tensors->elements * element);
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
        bench_json_text(&json, "workload", tensors->name);
        measure_to_json(&json, &work, &effort, &result);
        job_row_write(job, &json);
        if (job->rank == 0) {
            print_row(&work, &result);
        }
    }
    work_close(&work);
    return status;
}

static tutti_status run_name(struct job *job, const char *name)
{
    struct bench_workload tensors;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init(&tensors, name)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    bench_workload_pad(
            &tensors, (tutti_collective)job->arguments->collective, job->size);
    if (work_fits(job, &tensors, true)) {
        status = measure_workload(job, &tensors);
    }
    bench_workload_fini(&tensors);
    return status;
}

tutti_status run_workload(struct job *job)
{
    const struct bench_arguments *arguments = job->arguments;
    tutti_status status = TUTTI_OK;

    job_print_head(job,
            "all tensors submitted in reverse order, then waited for; time per "
            "step");
    if (job->rank == 0) {
        print_head(arguments->compare);
    }
    if (strcmp(arguments->name, "all") != 0) {
        return run_name(job, arguments->name);
    }
    for (size_t i = 0; bench_workload_names[i] != NULL && status == TUTTI_OK; i++) {
        status = run_name(job, bench_workload_names[i]);
    }
    job->left_out = false; /* "all" means all that fit */
    return status;
}
