/*
 * workload: the gradients of a network, all submitted in reverse order, then waited
 * for; those of a training loop are in trainer.c.
 */
#include "bench/workload.h"

#include <string.h>

#include "bench/commands.h"

static void print_head(int compare)
{
    (void)printf("# %-17s %8s %10s %8s %11s %11s %11s %7s", "workload", "tensors", "MB",
            "complete", "min", "median", "p99", "#wrong");
    for (const struct rival *r = rivals; r->name != NULL; r++) {
        if ((compare & r->compare) != 0) {
            (void)printf(
                    " %11s %11s   tutti / %s (min..max)", r->title, "p99", r->name);
        }
    }
    (void)printf("\n# %-17s %8s %10s %8s %11s %11s %11s %7s", "", "", "", "", "(ms)",
            "(ms)", "(ms)", "");
    for (const struct rival *r = rivals; r->name != NULL; r++) {
        if ((compare & r->compare) != 0) {
            (void)printf(" %11s %11s   %8s%*s           ", "(ms)", "(ms)", "",
                    (int)strlen(r->name), "");
        }
    }
    (void)printf("\n");
}

static void print_compared(const struct side_result *side)
{
    if (side->measured) {
        (void)printf(" %11.3f %11.3f   %.2f (%.2f..%.2f)", side->typical / 1e3,
                side->p99 / 1e3, side->ratio.median, side->ratio.min, side->ratio.max);
    }
}

static void print_row(const struct work *work, const struct measurement *result)
{
    const struct bench_workload *tensors = work->tensors;
    const struct side_result *own = &result->side[SIDE_TUTTI];

    (void)printf("  %-17s %8zu %10.2f %8s %11.3f %11.3f %11.3f %7lld", tensors->name,
            tensors->count,
            (double)tensors->elements * (double)work->pattern.element_bytes / 1e6,
            bench_complete_name(work->complete), own->min / 1e3, own->typical / 1e3,
            own->p99 / 1e3, (long long)own->wrong);
    for (const struct rival *r = rivals; r->name != NULL; r++) {
        print_compared(&result->side[r->side]);
    }
    (void)printf("\n");
    (void)fflush(stdout);
}

static tutti_status measure_work(struct work *work)
{
    struct job *job = work->job;
    const struct bench_workload *tensors = work->tensors;
    struct effort effort =
            effort_for(job, tensors->elements * work->pattern.element_bytes);
    struct measurement result;
    struct bench_json json;
    tutti_status status;

    status = measure(work, &effort, &result);
    if (status == TUTTI_OK) {
        job_row_start(job, &json);
        bench_json_text(&json, "workload", tensors->name);
        measure_to_json(&json, work, &effort, &result);
        job_row_write(job, &json);
        if (job->rank == 0) {
            print_row(work, &result);
        }
        measure_print_doubts(job, &result);
    }
    return status;
}

static tutti_status measure_tensors(
        struct job *job, const struct bench_workload *tensors)
{
    struct work work;
    tutti_status status = work_open(&work, job, tensors, true);

    if (status == TUTTI_OK) {
        status = measure_work(&work);
        work_close(&work);
    }
    return status;
}

static tutti_status run_network(struct job *job, const char *name)
{
    struct bench_workload tensors;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init(&tensors, name)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    bench_workload_pad(
            &tensors, (tutti_collective)job->arguments->collective, job->size);
    if (work_fits(job, &tensors, 1)) {
        status = measure_tensors(job, &tensors);
    }
    bench_workload_fini(&tensors);
    return status;
}

static tutti_status run_networks(struct job *job)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; bench_workload_names[i] != NULL && status == TUTTI_OK; i++) {
        status = run_network(job, bench_workload_names[i]);
    }
    job->left_out = false; /* "all" means all that fit */
    return status;
}

tutti_status run_workload(struct job *job)
{
    const char *name = job->arguments->name;

    if (strcmp(name, "trainer") == 0) {
        return workload_trainer(job);
    }
    job_print_head(job,
            "all tensors submitted in reverse order; time until the last is over, per "
            "step");
    if (job->rank == 0) {
        print_head(job->arguments->compare);
    }
    return strcmp(name, "all") == 0 ? run_networks(job) : run_network(job, name);
}
