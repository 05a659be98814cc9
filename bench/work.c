/*
 * Buffers, submission and checking. The other sides are in work_mpi.c, work_limit.c and
 * exchange.c.
 */
#include "bench/work.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/arithmetic.h"
#include "bench/core/collective.h"

/* tutti_test() is called so often before the core is offered to others each time. */
enum {
    TESTS_UNTIL_YIELD = 200
};

/* Bytes of a tensor, and what it takes up: cache lines, and never nothing. */
static size_t tensor_bytes(const struct work *work, size_t index)
{
    return (size_t)work->tensors->tensors[index].count * work->pattern.element_bytes;
}

static size_t padded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Sets of buffers that are there at once: each side has its own, but for MPI. */
static uint64_t buffer_sets(const struct job *job, int buffers)
{
    const int compare = job->arguments->compare;
    const uint64_t contexts = (compare & BENCH_WITH_SLOW) != 0 ? 2 : 1;
    const uint64_t mapped = (compare & BENCH_WITH_LIMIT) != 0 ? 1 : 0;

    return (uint64_t)buffers * contexts + mapped;
}

bool work_fits(struct job *job, const struct bench_workload *tensors, int buffers)
{
    uint64_t element = bench_dtype_bytes((tutti_dtype)job->arguments->dtype);
    /* neither overflows: sizes are at most 2^48 and tensors few */
    uint64_t bytes = tensors->elements * element + 128 * tensors->count;

    if (job_memory_suffices(job, bytes * buffer_sets(job, buffers))) {
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

size_t work_bytes(const struct work *work)
{
    size_t total = 0;

    for (size_t i = 0; i < work->tensors->count; i++) {
        total += padded(tensor_bytes(work, i));
    }
    return total;
}

static void lay_side_by_side(
        const struct work *work, struct buffers *buffers, unsigned char *memory)
{
    for (size_t i = 0; i < work->tensors->count; i++) {
        buffers->tensors[i] = memory;
        memory += padded(tensor_bytes(work, i));
    }
}

static tutti_status allocate_arena(const struct work *work, struct buffers *buffers)
{
    tutti_status status =
            tutti_alloc(work->t, work_bytes(work), TUTTI_HOST, &buffers->arena);

    if (status == TUTTI_OK) {
        lay_side_by_side(work, buffers, buffers->arena);
    }
    return status;
}

/* As the arena, wherever malloc() puts it. */
static tutti_status allocate_shared(const struct work *work, struct buffers *buffers)
{
    const size_t bytes = work_bytes(work);

    buffers->shared = calloc(bytes, 1);
    if (buffers->shared == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    lay_side_by_side(work, buffers, buffers->shared);
    return tutti_share(work->t, buffers->shared, bytes);
}

/* What was allocated before a failure is work_close()'s to free. */
static tutti_status allocate(const struct work *work, struct buffers *buffers)
{
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    buffers->tensors = calloc(work->tensors->count, sizeof *buffers->tensors);
    if (buffers->tensors != NULL && work->job->arguments->memory == BENCH_ARENA) {
        status = allocate_arena(work, buffers);
    } else if (buffers->tensors != NULL) {
        status = work->job->arguments->memory == BENCH_SHARE
                ? allocate_shared(work, buffers)
                : allocate_private(work, buffers);
    }
    return status == TUTTI_OK ? TUTTI_OK
                              : job_failed(work->job, status, "allocating buffers");
}

static void release(const struct work *work, struct buffers *buffers)
{
    if (buffers->tensors != NULL && work->segment == NULL &&
            work->job->arguments->memory == BENCH_PRIVATE) {
        for (size_t i = 0; i < work->tensors->count; i++) {
            free(buffers->tensors[i]);
        }
    }
    if (buffers->arena != NULL) {
        /* fails for foreign memory only */
        (void)tutti_free(work->t, buffers->arena);
    }
    if (buffers->shared != NULL) {
        /* fails where it was not shared */
        (void)tutti_unshare(work->t, buffers->shared);
        free(buffers->shared);
    }
    free(buffers->tensors);
}

static void describe(struct work *work, struct job *job,
        const struct bench_workload *tensors, bool in_place)
{
    const struct bench_arguments *arguments = job->arguments;

    *work = (struct work){
        .job = job,
        .t = job->t,
        .tensors = tensors,
        .step = work_step_tutti,
        .complete = (enum bench_complete)arguments->complete,
        .in_place = in_place,
        .operation = { .collective = (tutti_collective)arguments->collective,
                .dtype = (tutti_dtype)arguments->dtype,
                .op = (tutti_reduce_op)arguments->op,
                .root = arguments->root },
    };
    bench_pattern_init(&work->pattern, &work->operation, job->rank, job->size);
}

/* What submit_named() says each time. */
static tutti_status register_one(struct work *work, size_t index)
{
    const struct bench_operation *how = &work->operation;
    const bool has_rows = bench_has_parts(how->collective);
    const bool has_part = how->collective == TUTTI_ALLGATHER ||
            how->collective == TUTTI_GATHER || how->collective == TUTTI_SCATTER;
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = work->tensors->tensors[index].name,
        .collective = how->collective,
        .count = (int64_t)(has_part ? work_part(work, index)
                                    : work->tensors->tensors[index].count),
        .dtype = how->dtype,
        .op = how->op,
        .root = how->root,
        .row_count = has_rows ? 1 : 0 };

    return tutti_tensor_register(work->t, &desc, &work->ids[index]);
}

static tutti_status register_all(struct work *work)
{
    tutti_status status = TUTTI_OK;

    if (work->job->arguments->names) {
        return TUTTI_OK;
    }
    work->ids = calloc(work->tensors->count, sizeof *work->ids);
    if (work->ids == NULL) {
        return job_failed(work->job, TUTTI_ERR_NO_MEMORY, "allocating ids");
    }
    for (size_t i = 0; i < work->tensors->count && status == TUTTI_OK; i++) {
        status = register_one(work, i);
    }
    return status == TUTTI_OK ? TUTTI_OK
                              : job_failed(work->job, status, "registering tensors");
}

static void unregister_all(const struct work *work)
{
    for (size_t i = 0; work->ids != NULL && i < work->tensors->count; i++) {
        /* fails for those that were not registered */
        (void)tutti_tensor_unregister(work->t, work->ids[i]);
    }
    free(work->ids);
}

/* The buffers are there: what points to them. */
static void use_buffers(struct work *work)
{
    work->inputs = work->owned[0].tensors;
    work->outputs = work->owned[work->in_place ? 0 : 1].tensors;
    work_clear(work);
}

static struct work_news *news_create(void)
{
    struct work_news *news = calloc(1, sizeof *news);

    if (news != NULL) {
        (void)pthread_mutex_init(&news->lock, NULL);
        (void)pthread_cond_init(&news->over, NULL);
    }
    return news;
}

static void news_destroy(struct work_news *news)
{
    if (news != NULL) {
        (void)pthread_mutex_destroy(&news->lock);
        (void)pthread_cond_destroy(&news->over);
        free(news);
    }
}

/* The work is described; its buffers are not there yet. */
static tutti_status open_buffers(struct work *work)
{
    tutti_status status;

    work->requests = calloc(work->tensors->count, sizeof *work->requests);
    work->uses = calloc(work->tensors->count, sizeof *work->uses);
    work->news = news_create();
    status = work->requests == NULL || work->uses == NULL || work->news == NULL
            ? job_failed(work->job, TUTTI_ERR_NO_MEMORY, "allocating requests")
            : allocate(work, &work->owned[0]);
    if (status == TUTTI_OK && (!work->in_place || work->alternates)) {
        status = allocate(work, &work->owned[1]);
    }
    if (status == TUTTI_OK) {
        status = register_all(work);
    }
    if (status != TUTTI_OK) {
        work_close(work);
        return status;
    }
    use_buffers(work);
    return TUTTI_OK;
}

tutti_status work_open(struct work *work, struct job *job,
        const struct bench_workload *tensors, bool in_place)
{
    describe(work, job, tensors, in_place);
    return open_buffers(work);
}

tutti_status work_open_alternating(
        struct work *work, struct job *job, const struct bench_workload *tensors)
{
    describe(work, job, tensors, true);
    work->alternates = true;
    return open_buffers(work);
}

tutti_status work_open_slow(struct work *slow, const struct work *work)
{
    describe(slow, work->job, work->tensors, work->in_place);
    slow->t = work->job->slow;
    slow->step = work->step;
    slow->program = work->program;
    slow->alternates = work->alternates;
    return open_buffers(slow);
}

tutti_status work_open_mapped(
        struct work *work, struct job *job, const struct bench_workload *tensors)
{
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    describe(work, job, tensors, true);
    work->segment = calloc(1, sizeof *work->segment);
    work->slices = calloc((size_t)job->size, sizeof *work->slices);
    work->owned[0].tensors = calloc(tensors->count, sizeof *work->owned[0].tensors);
    if (work->segment == NULL || work->slices == NULL ||
            work->owned[0].tensors == NULL) {
        (void)job_failed(job, status, "allocating buffers");
    } else {
        status = segment_open(work->segment, job, work_bytes(work));
    }
    if (status != TUTTI_OK) {
        work_close(work);
        return status;
    }
    lay_side_by_side(work, &work->owned[0], segment_part(work->segment, job->rank));
    use_buffers(work);
    return TUTTI_OK;
}

void work_close(struct work *work)
{
    unregister_all(work);
    release(work, &work->owned[0]);
    release(work, &work->owned[1]);
    free(work->requests);
    news_destroy(work->news);
    free(work->uses);
    if (work->segment != NULL) {
        segment_close(work->segment);
    }
    free(work->segment);
    free(work->slices);
    *work = (struct work){ .in_place = false };
}

void work_alternate(struct work *work)
{
    const bool second = work->inputs == work->owned[0].tensors;

    work->inputs = work->owned[second ? 1 : 0].tensors;
    work->outputs = work->inputs;
}

/* Does something to the buffers, and to the others when there are two sets. */
static void on_all_buffers(struct work *work, void (*action)(struct work *work))
{
    action(work);
    if (work->alternates) {
        work_alternate(work);
        action(work);
        work_alternate(work);
    }
}

static void clear(struct work *work)
{
    for (size_t i = 0; i < work->tensors->count; i++) {
        memset(work->inputs[i], 0, tensor_bytes(work, i));
        memset(work->outputs[i], 0, tensor_bytes(work, i));
    }
}

void work_clear(struct work *work)
{
    on_all_buffers(work, clear);
}

/* Bytes in front of this rank's part. */
static size_t part_offset(const struct work *work, size_t index)
{
    return (size_t)work->job->rank * (size_t)work_part(work, index) *
            work->pattern.element_bytes;
}

uint64_t work_part(const struct work *work, size_t index)
{
    return work->tensors->tensors[index].count / (uint64_t)work->job->size;
}

unsigned char *work_input(const struct work *work, size_t index)
{
    return work->inputs[index] +
            (bench_input_is_part(work->operation.collective) ? part_offset(work, index)
                                                             : 0);
}

unsigned char *work_output(const struct work *work, size_t index)
{
    return work->outputs[index] +
            (bench_output_is_part(work->operation.collective) ? part_offset(work, index)
                                                              : 0);
}

/* A callback of tutti. */
static void take_news(void *user, tutti_status status, const char *message)
{
    struct work_news *news = user;

    (void)pthread_mutex_lock(&news->lock);
    if (status != TUTTI_OK && news->status == TUTTI_OK) {
        news->status = status;
        (void)snprintf(news->message, sizeof news->message, "%s", message);
    }
    if (--news->pending == 0) {
        news->ended_us = bench_now_us();
        (void)pthread_cond_signal(&news->over);
    }
    (void)pthread_mutex_unlock(&news->lock);
}

/* One more callback is to come, or, with -1, one less: its submission has failed. */
static void expect_news(struct work_news *news, int more)
{
    (void)pthread_mutex_lock(&news->lock);
    news->pending = (size_t)((int64_t)news->pending + more);
    (void)pthread_mutex_unlock(&news->lock);
}

static tutti_status submit_named(struct work *work, size_t index,
        const tutti_options *options, tutti_request *request)
{
    const struct bench_operation *how = &work->operation;
    const char *name = work->tensors->tensors[index].name;
    int64_t count = (int64_t)work->tensors->tensors[index].count;
    int64_t part = (int64_t)work_part(work, index);
    const void *input = work_input(work, index);
    void *output = work_output(work, index);
    tutti *t = work->t;

    switch (how->collective) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce_async(
                t, name, input, output, count, how->dtype, how->op, options, request);
    case TUTTI_BROADCAST:
        return tutti_broadcast_async(
                t, name, output, count, how->dtype, how->root, options, request);
    case TUTTI_REDUCE:
        return tutti_reduce_async(t, name, input, output, count, how->dtype, how->op,
                how->root, options, request);
    case TUTTI_REDUCESCATTER:
        return tutti_reducescatter_async(t, name, input, output, count, 1, NULL,
                how->dtype, how->op, options, request);
    case TUTTI_ALLGATHER:
        return tutti_allgather_async(
                t, name, input, output, part, 1, NULL, how->dtype, options, request);
    case TUTTI_ALLTOALL:
        return tutti_alltoall_async(t, name, input, output, count, 1, NULL, NULL,
                how->dtype, options, request);
    case TUTTI_GATHER:
        return tutti_gather_async(t, name, input, output, part, 1, NULL, how->dtype,
                how->root, options, request);
    case TUTTI_SCATTER:
        return tutti_scatter_async(t, name, input, output, part, 1, NULL, how->dtype,
                how->root, options, request);
    case TUTTI_BARRIER: /* has no tensors */
    case TUTTI_MESSAGE:
        break;
    }
    return TUTTI_ERR_INVALID;
}

static tutti_status submit_one(struct work *work, size_t index, tutti_request *request)
{
    const bool calls = work->complete == BENCH_BY_CALLBACK;
    tutti_callback callback = calls ? take_news : NULL;
    tutti_options options;
    tutti_status status;

    if (calls) {
        expect_news(work->news, 1);
        request = NULL;
    }
    if (work->ids == NULL) {
        tutti_options_default(&options);
        options.step = work->uses[index]++;
        options.callback = callback;
        options.user = work->news;
        status = submit_named(work, index, &options, request);
    } else {
        status = tutti_submit(work->t, work->ids[index], work_input(work, index),
                work_output(work, index), work->uses[index]++, callback, work->news,
                request);
    }
    if (calls && status != TUTTI_OK) {
        expect_news(work->news, -1);
    }
    return status;
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

/* Sleeps, as a program does that has left everything to its callbacks. */
static tutti_status await_news(struct work *work)
{
    struct work_news *news = work->news;
    tutti_status status;

    (void)pthread_mutex_lock(&news->lock);
    while (news->pending > 0) {
        (void)pthread_cond_wait(&news->over, &news->lock);
    }
    status = news->status;
    (void)pthread_mutex_unlock(&news->lock);
    if (status != TUTTI_OK) {
        job_complain(work->job, "%s", news->message);
    }
    return status;
}

/* Asks over and over; after a while others may have the core in between. */
static tutti_status test_one(struct work *work, size_t place, int *tests)
{
    tutti_status status = tutti_test(work->t, &work->requests[place]);

    while (status == TUTTI_AGAIN) {
        if (++*tests > TESTS_UNTIL_YIELD) {
            (void)sched_yield();
        }
        status = tutti_test(work->t, &work->requests[place]);
    }
    return status;
}

static tutti_status test_all(struct work *work)
{
    tutti_status status = TUTTI_OK;
    int tests = 0;

    for (size_t i = 0; i < work->tensors->count && status == TUTTI_OK; i++) {
        status = test_one(work, i, &tests);
    }
    return status;
}

tutti_status work_wait(struct work *work)
{
    tutti_status status = TUTTI_OK;

    switch (work->complete) {
    case BENCH_BY_WAIT:
        status = tutti_wait_all(
                work->t, work->tensors->count, work->requests, TUTTI_FOREVER, NULL);
        break;
    case BENCH_BY_CALLBACK:
        return await_news(work);
    case BENCH_BY_TEST:
        status = test_all(work);
        break;
    }
    return status == TUTTI_OK ? TUTTI_OK : job_failed(work->job, status, "waiting");
}

struct work work_waiting(const struct work *work)
{
    struct work waiting = *work;

    waiting.complete = BENCH_BY_WAIT;
    return waiting;
}

tutti_status work_step_tutti(struct work *work)
{
    tutti_status status = work_submit(work, 0, work->tensors->count);

    work->result_in_front = false;
    if (status == TUTTI_OK) {
        status = work_wait(work);
    }
    /* How long the thread that the last callback wakes takes to wake up is not tutti's. */
    work->ended_us = work->complete == BENCH_BY_CALLBACK ? work->news->ended_us : 0;
    return status;
}

static void fill(struct work *work)
{
    for (size_t i = 0; i < work->tensors->count; i++) {
        if (!work->in_place) {
            memset(work->outputs[i], 0xee, tensor_bytes(work, i));
        }
        bench_pattern_fill(
                &work->pattern, work->inputs[i], work->tensors->tensors[i].count, i);
    }
}

void work_fill(struct work *work)
{
    on_all_buffers(work, fill);
}

/* Of an output that was reduced or comes from the root. */
static uint64_t count_wrong(const struct work *work, size_t index)
{
    uint64_t part = work_part(work, index);

    if (!bench_output_is_part(work->operation.collective)) {
        return bench_pattern_count_wrong(&work->pattern, work->outputs[index],
                work->tensors->tensors[index].count, index);
    }
    return bench_pattern_count_wrong(&work->pattern,
            work->result_in_front ? work->outputs[index] : work_output(work, index),
            part, index + (uint64_t)work->job->rank * part);
}

/* Of an output with a part from every rank: of its whole input, or the part for us. */
static uint64_t count_wrong_parts(const struct work *work, size_t index)
{
    uint64_t part = work_part(work, index);
    struct bench_pattern pattern = work->pattern;
    uint64_t wrong = 0;

    for (int source = 0; source < work->job->size; source++) {
        uint64_t at = (uint64_t)source * part;
        uint64_t from = work->operation.collective == TUTTI_ALLTOALL
                ? (uint64_t)work->job->rank * part
                : at;

        bench_pattern_expect_input_of(
                &pattern, &work->operation, source, work->job->size);
        wrong += bench_pattern_count_wrong(&pattern,
                work->outputs[index] + at * pattern.element_bytes, part, index + from);
    }
    return wrong;
}

int64_t work_count_wrong(const struct work *work)
{
    tutti_collective collective = work->operation.collective;
    bool elsewhere = (collective == TUTTI_REDUCE || collective == TUTTI_GATHER) &&
            work->job->rank != work->operation.root;
    bool from_all = bench_has_parts(collective) && !bench_output_is_part(collective);
    uint64_t wrong = 0;

    for (size_t i = 0; i < work->tensors->count && !elsewhere; i++) {
        wrong += from_all ? count_wrong_parts(work, i) : count_wrong(work, i);
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

    bench_json_text(json, "op", bench_collective_name(operation->collective));
    bench_json_text(
            json, "redop", bench_redop_name(operation->collective, operation->op));
    bench_json_text(json, "dtype", bench_dtype_name(operation->dtype));
    bench_json_integer(json, "bytes",
            (int64_t)(work->tensors->elements * work->pattern.element_bytes));
    bench_json_integer(json, "tensors", (int64_t)work->tensors->count);
    bench_json_text(
            json, "memory", bench_memory_name((enum bench_memory)arguments->memory));
    bench_json_text(json, "complete", bench_complete_name(work->complete));
}
