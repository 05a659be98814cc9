/*
 * workload adversarial: each step departs in one tensor from the steps before it, so that
 * a plan which was made of those does not fit.
 */
#include "bench/workload.h"

enum {
    ADVERSARIAL_TENSORS = 50
};

/* What the steps of one row need. */
struct adversarial_program {
    enum bench_adversary adversary;
    uint64_t hold; /* steps that are alike */
};

/* All tensors but the one at this place; the request there is that of no operation. */
static tutti_status submit_others(struct work *work, size_t place)
{
    tutti_status status = work_submit(work, 0, place);

    return status == TUTTI_OK ? work_submit(work, place + 1, work->tensors->count)
                              : status;
}

/* All tensors, those behind this place only when the one there is done. */
static tutti_status submit_in_two(struct work *work, size_t place)
{
    tutti_status status = work_submit(work, 0, place + 1);

    if (status == TUTTI_OK) {
        status = work_wait_one(work, place);
    }
    return status == TUTTI_OK ? work_submit(work, place + 1, work->tensors->count)
                              : status;
}

/* Tells the work which tensor it does otherwise. */
static void set_exception(struct work *work, struct bench_adversity adversity)
{
    const struct bench_tensor *tensor = &work->tensors->tensors[adversity.tensor];
    const enum bench_change change = adversity.change;

    work->exception = (struct work_exception){
        .exists = change != BENCH_UNCHANGED,
        .tensor = adversity.tensor,
        .count = tensor->count,
        .name = change == BENCH_OTHER_NAME ? "another" : tensor->name,
    };
    if (change == BENCH_OTHER_COUNT) {
        work->exception.count = tensor->count / 2;
    } else if (change == BENCH_LEFT_OUT) {
        work->exception.count = 0;
        work->exception.name = NULL;
    }
}

static tutti_status step_adversarial(struct work *work)
{
    const struct adversarial_program *program = work->program;
    const size_t tensors = work->tensors->count;
    const struct bench_adversity adversity = bench_adversity_at(
            program->adversary, tensors, work->steps++, program->hold);
    const size_t place = tensors - 1 - adversity.tensor;
    tutti_status status;

    set_exception(work, adversity);
    if (adversity.change == BENCH_LEFT_OUT) {
        status = submit_others(work, place);
    } else if (adversity.change == BENCH_WAITED_FOR) {
        status = submit_in_two(work, place);
    } else {
        status = work_submit(work, 0, tensors);
    }
    work->result_in_front = false;
    return status == TUTTI_OK ? work_wait(work) : status;
}

static tutti_status measure_adversarial(struct job *job,
        const struct bench_workload *tensors, enum bench_adversary adversary)
{
    const struct adversarial_program program = { .adversary = adversary,
        .hold = (uint64_t)job->arguments->hold };
    struct work work;
    tutti_status status = work_open(&work, job, tensors, true);

    if (status == TUTTI_OK) {
        work.step = step_adversarial;
        work.program = &program;
        status = workload_measure(&work);
        work_close(&work);
    }
    return status;
}

tutti_status workload_adversarial(struct job *job, enum bench_adversary adversary)
{
    struct bench_workload tensors;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init_mixed(
                &tensors, bench_adversary_names[adversary], ADVERSARIAL_TENSORS)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    if (work_fits(job, &tensors, 1)) {
        status = measure_adversarial(job, &tensors, adversary);
    }
    bench_workload_fini(&tensors);
    return status;
}
