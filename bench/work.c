/*
 * Buffers, submission and checking. The raw MPI side is in work_mpi.c.
 */
#include "bench/work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a tensor, and what it takes up: cache lines, and never nothing. */
static size_t tensor_bytes(const struct work *work, size_t index)
{
    return (size_t)work->tensors->tensors[index].count * work->pattern.element_bytes;
}

static size_t padded(size_t bytes)
{
    return (bytes + 64) & ~(size_t)63;
}

bool work_fits(struct job *job, const struct bench_workload *tensors, bool in_place)
{
    uint64_t element = bench_dtype_bytes((tutti_dtype)job->arguments->dtype);
    /* neither overflows: sizes are at most 2^48 and tensors few */
    uint64_t bytes = tensors->elements * element + 128 * tensors->count;

    if (job_memory_suffices(job, in_place ? bytes : 2 * bytes)) {
        return true;
    }
    job_complain(job,
            "%s of %" PRIu64
            " bytes is left out: the buffers of the ranks of a host would "
            "take more than half of its free memory",
            tensors->name, bytes);
    job->left_out = true;
    return false;
}

/* Every tensor in a block of its own, as a trainer's framework does it. */
static tutti_status allocate_private(const struct work *work, struct buffers *buffers)
{
    for (size_t i = 0; i < work->tensors->count; i++) {
        buffers->tensors[i] = aligned_alloc(64, padded(tensor_bytes(work, i)));
        if (buffers->tensors[i] == NULL) {
            return TUTTI_ERR_NO_MEMORY;
        }
    }
    return TUTTI_OK;
}

/* One arena with all tensors side by side. */
static tutti_status allocate_arena(const struct work *work, struct buffers *buffers)
{
    size_t offset = 0;
    size_t total = 0;
    tutti_status status;

    for (size_t i = 0; i < work->tensors->count; i++) {
        total += padded(tensor_bytes(work, i));
    }
    status = tutti_alloc(work->job->t, total, TUTTI_HOST, &buffers->arena);
    for (size_t i = 0; i < work->tensors->count && status == TUTTI_OK; i++) {
        buffers->tensors[i] = (unsigned char *)buffers->arena + offset;
        offset += padded(tensor_bytes(work, i));
    }
    return status;
}

/* What was allocated before a failure is work_close()'s to free. */
static tutti_status allocate(const struct work *work, struct buffers *buffers)
{
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    buffers->tensors = calloc(work->tensors->count, sizeof *buffers->tensors);
    if (buffers->tensors != NULL) {
        status = work->job->arguments->memory == BENCH_ARENA
                ? allocate_arena(work, buffers)
                : allocate_private(work, buffers);
    }
    return status == TUTTI_OK ? TUTTI_OK
                              : job_failed(work->job, status, "allocating buffers");
}

static void release(const struct work *work, struct buffers *buffers)
{
    if (buffers->tensors != NULL && work->job->arguments->memory == BENCH_PRIVATE) {
        for (size_t i = 0; i < work->tensors->count; i++) {
            free(buffers->tensors[i]);
        }
    }
    /* fails for foreign memory only */
    (void)tutti_free(work->job->t, buffers->arena);
    free(buffers->tensors);
}

tutti_status work_open(struct work *work, struct job *job,
        const struct bench_workload *tensors, bool in_place)
{
    const struct bench_arguments *arguments = job->arguments;
    tutti_status status;

    *work = (struct work){
        .job = job,
        .tensors = tensors,
        .in_place = in_place,
        .operation = { .collective = (tutti_collective)arguments->collective,
                .dtype = (tutti_dtype)arguments->dtype,
                .op = (tutti_reduce_op)arguments->op,
                .root = arguments->root },
    };
    bench_pattern_init(&work->pattern, &work->operation, job->rank, job->size);
    work->requests = calloc(tensors->count, sizeof *work->requests);
    status = work->requests == NULL
            ? job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating requests")
            : allocate(work, &work->owned[0]);
    if (status == TUTTI_OK && !in_place) {
        status = allocate(work, &work->owned[1]);
    }
    if (status != TUTTI_OK) {
        work_close(work);
        return status;
    }
    work->inputs = work->owned[0].tensors;
    work->outputs = work->owned[in_place ? 0 : 1].tensors;
    work_clear(work);
    return TUTTI_OK;
}

void work_close(struct work *work)
{
    release(work, &work->owned[0]);
    release(work, &work->owned[1]);
    free(work->requests);
    *work = (struct work){ .in_place = false };
}

void work_clear(struct work *work)
{
    for (size_t i = 0; i < work->tensors->count; i++) {
        memset(work->inputs[i], 0, tensor_bytes(work, i));
        memset(work->outputs[i], 0, tensor_bytes(work, i));
    }
}

static tutti_status submit_one(struct work *work, size_t index, tutti_request *request)
{
    const struct bench_operation *operation = &work->operation;
    const struct bench_tensor *tensor = &work->tensors->tensors[index];
    tutti *t = work->job->t;
    int64_t count = (int64_t)tensor->count;

    if (operation->collective == TUTTI_ALLREDUCE) {
        return tutti_allreduce_async(t, tensor->name, work->inputs[index],
                work->outputs[index], count, operation->dtype, operation->op, NULL,
                request);
    }
    return tutti_broadcast_async(t, tensor->name, work->outputs[index], count,
            operation->dtype, operation->root, NULL, request);
}

tutti_status work_submit(struct work *work, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        size_t index = work->tensors->count - 1 - i;
        tutti_status status = submit_one(work, index, &work->requests[i]);

        if (status != TUTTI_OK) {
            return job_failed(work->job, status, work->tensors->tensors[index].name);
        }
    }
    return TUTTI_OK;
}

tutti_status work_wait(struct work *work)
{
    tutti_status status = tutti_wait_all(
            work->job->t, work->tensors->count, work->requests, TUTTI_FOREVER, NULL);

    return status == TUTTI_OK ? TUTTI_OK : job_failed(work->job, status, "waiting");
}

tutti_status work_step_tutti(struct work *work)
{
    tutti_status status = work_submit(work, 0, work->tensors->count);

    return status == TUTTI_OK ? work_wait(work) : status;
}

void work_fill(struct work *work)
{
    for (size_t i = 0; i < work->tensors->count; i++) {
        if (!work->in_place) {
            memset(work->outputs[i], 0xee, tensor_bytes(work, i));
        }
        bench_pattern_fill(
                &work->pattern, work->inputs[i], work->tensors->tensors[i].count, i);
    }
}

int64_t work_count_wrong(const struct work *work)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < work->tensors->count; i++) {
        wrong += bench_pattern_count_wrong(
                &work->pattern, work->outputs[i], work->tensors->tensors[i].count, i);
    }
    return (int64_t)wrong;
}

tutti_status work_check(struct work *work, work_step step, int checks, int64_t *wrong)
{
    int64_t total = 0;

    for (int i = 0; i < checks; i++) {
        tutti_status status;

        work_fill(work);
        status = step(work);
        if (status != TUTTI_OK) {
            return status;
        }
        total += work_count_wrong(work);
    }
    if (checks > 0) {
        work_clear(work);
    }
    *wrong = total;
    return TUTTI_OK;
}

void work_to_json(struct bench_json *json, const struct work *work)
{
    const struct bench_arguments *arguments = work->job->arguments;
    const struct bench_operation *operation = &work->operation;

    bench_json_text(json, "op",
            operation->collective == TUTTI_ALLREDUCE ? "allreduce" : "broadcast");
    bench_json_text(
            json, "redop", bench_redop_name(operation->collective, operation->op));
    bench_json_text(json, "dtype", bench_dtype_name(operation->dtype));
    bench_json_integer(json, "bytes",
            (int64_t)(work->tensors->elements * work->pattern.element_bytes));
    bench_json_integer(json, "tensors", (int64_t)work->tensors->count);
    bench_json_text(
            json, "memory", bench_memory_name((enum bench_memory)arguments->memory));
}
