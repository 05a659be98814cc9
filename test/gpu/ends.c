/*
 * Jobs over the simulated GPU whose ranks are threads, and what those of MPI share with them.
 */
#include "test/gpu/ends.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void ends_check(bool holds, int rank, const char *file, int line, const char *condition)
{
    if (!holds) {
        (void)fprintf(stderr, "rank %d: %s:%d: %s: \"%s\"\n", rank, file, line,
                condition, tutti_last_error());
        (void)fflush(NULL);
        _Exit(1);
    }
}

/* ------------------------------------------------------------------ configuring */

static void keep_line(void *user, tutti_log_level level, int rank, const char *line)
{
    struct ends_job *job = user;
    size_t len;

    (void)level;
    (void)rank;
    (void)pthread_mutex_lock(&job->lock);
    len = strlen(job->lines);
    (void)snprintf(job->lines + len, sizeof job->lines - len, "%s\n", line);
    (void)pthread_mutex_unlock(&job->lock);
}

bool ends_was_logged(struct ends_job *job, const char *words)
{
    bool was;

    (void)pthread_mutex_lock(&job->lock);
    was = strstr(job->lines, words) != NULL;
    (void)pthread_mutex_unlock(&job->lock);
    return was;
}

static void set(struct ends_job *job, const char *name, const char *value)
{
    const struct ends_rank *r = &job->ranks[0];

    CHECK(tutti_config_set(job->config, name, value) == TUTTI_OK);
}

/* "name=value name=value" */
static void set_all(struct ends_job *job, const char *parameters)
{
    char text[256];
    char *rest = text;

    (void)snprintf(text, sizeof text, "%s", parameters);
    while (rest != NULL && *rest != '\0') {
        const char *name = strsep(&rest, "=");

        set(job, name, strsep(&rest, " "));
    }
}

void ends_configure(
        struct ends_job *job, const struct ends_case *what, const char *nccl)
{
    const struct ends_rank *r = &job->ranks[0];

    job->what = what;
    (void)pthread_mutex_init(&job->lock, NULL);
    CHECK(tutti_config_create(&job->config) == TUTTI_OK);
    CHECK(tutti_config_set_log(job->config, keep_line, job) == TUTTI_OK);
    set(job, "cuda_library", GPUSIM_CUDA);
    set(job, "nccl_library", nccl);
    set(job, "gpu_kernels", "/proc/self/exe");
    set_all(job, what->parameters);
}

/* ------------------------------------------------------------------------- ranks */

void ends_enter(struct ends_rank *r)
{
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&r->context, r->device) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(r->context) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&r->stream, 1) == CUDA_SUCCESS);
}

/* A context that was reset, or has a sticky error, lets nothing go. */
void ends_leave(struct ends_rank *r)
{
    (void)cuCtxSynchronize();
    while (r->memory_count > 0) {
        (void)cuMemFree_v2(r->memory[--r->memory_count]);
    }
    while (r->pinned_count > 0) {
        (void)cuMemFreeHost(r->pinned[--r->pinned_count]);
    }
    (void)cuStreamDestroy_v2(r->stream);
    (void)cuCtxSetCurrent(NULL);
    (void)cuDevicePrimaryCtxRelease_v2(r->device);
}

static void meet_threads(struct ends_rank *r)
{
    const int result = pthread_barrier_wait(&r->job->barrier);

    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
}

void ends_meet(struct ends_rank *r)
{
    r->job->meet(r);
}

void ends_nap(void)
{
    const struct timespec time = { .tv_nsec = 1000000 };

    (void)nanosleep(&time, NULL);
}

static void *run(void *arg)
{
    struct ends_rank *r = arg;

    ends_enter(r);
    r->job->what->body(r);
    CHECK(tutti_finalize(r->t) == r->job->what->finalize);
    CHECK(!r->has_beside || pthread_join(r->beside, NULL) == 0);
    ends_leave(r);
    return NULL;
}

static void run_threads(struct ends_job *job)
{
    tutti *contexts[ENDS_RANKS_MAX];
    const struct ends_rank *r = &job->ranks[0];

    job->meet = meet_threads;
    (void)pthread_barrier_init(&job->barrier, NULL, (unsigned)job->size);
    CHECK(tutti_init_local(job->size, contexts, job->config) == TUTTI_OK);
    tutti_config_destroy(job->config);
    for (int i = 0; i < job->size; i++) {
        const bool is_shared = strcmp(job->what->parameters, "gpu=0") == 0;

        job->ranks[i] = (struct ends_rank){ .job = job,
            .t = contexts[i],
            .rank = i,
            .size = job->size,
            .device = is_shared ? 0 : i };
    }
    for (int i = 0; i < job->size; i++) {
        struct ends_rank *one = &job->ranks[i];

        CHECK(pthread_create(&one->thread, NULL, run, one) == 0);
    }
    for (int i = 0; i < job->size; i++) {
        CHECK(pthread_join(job->ranks[i].thread, NULL) == 0);
    }
    (void)pthread_barrier_destroy(&job->barrier);
    (void)pthread_mutex_destroy(&job->lock);
}

/* What was made is gone when all is closed; what a reset took was never given back. */
static int check_left(void)
{
    const struct gpusim_live live = gpusim_live();
    const struct gpusim_nccl_live nccl = gpusim_nccl_live();

    if (live.device_bytes + live.host_bytes + live.streams + live.events +
                    live.modules + live.retained + nccl.comms + nccl.registrations +
                    nccl.allocations ==
            0) {
        return 0;
    }
    (void)fprintf(stderr,
            "left: %zu bytes, %zu pinned, %zu streams, %zu events, %zu modules, %zu "
            "contexts, %zu communicators, %zu registrations\n",
            live.device_bytes, live.host_bytes, live.streams, live.events, live.modules,
            live.retained, nccl.comms, nccl.registrations);
    return 1;
}

int ends_run(const struct ends_case *what, int ranks, const char *nccl)
{
    static struct ends_job job;

    if (ranks < 1 || ranks > ENDS_RANKS_MAX) {
        return 2;
    }
    job.size = ranks;
    ends_configure(&job, what, nccl);
    run_threads(&job);
    return what->is_lost ? 0 : check_left();
}

/* ------------------------------------------------------------------------ memory */

float *ends_alloc(struct ends_rank *r, int64_t count)
{
    uint64_t *address = &r->memory[r->memory_count++];

    CHECK(r->memory_count <= ENDS_MEMORY_MAX);
    CHECK(cuMemAlloc_v2(address, (size_t)count * sizeof(float)) == CUDA_SUCCESS);
    return (float *)(uintptr_t)*address; // NOLINT(performance-no-int-to-ptr)
}

float *ends_pinned(struct ends_rank *r, int64_t count)
{
    void **memory = &r->pinned[r->pinned_count++];

    CHECK(r->pinned_count <= ENDS_MEMORY_MAX);
    CHECK(cuMemHostAlloc(memory, (size_t)count * sizeof(float), 0) == CUDA_SUCCESS);
    return *memory;
}

void ends_fill(
        struct ends_rank *r, float *memory, float value, int64_t count, void *stream)
{
    unsigned bits;

    memcpy(&bits, &value, sizeof bits);
    CHECK(cuMemsetD32Async((uint64_t)(uintptr_t)memory, bits, (size_t)count, stream) ==
            CUDA_SUCCESS);
}

void ends_take(struct ends_rank *r, float *pinned, const float *memory, int64_t count,
        void *stream)
{
    CHECK(cuMemcpyDtoHAsync_v2(pinned, (uint64_t)(uintptr_t)memory,
                  (size_t)count * sizeof(float), stream) == CUDA_SUCCESS);
}

void ends_expect(struct ends_rank *r, const float *host, float value, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(&host[i], &value, sizeof value) != 0) {
            (void)fprintf(stderr, "element %" PRId64 " is %g, not %g\n", i,
                    (double)host[i], (double)value);
            CHECK(false && "the result is right");
        }
    }
}

/* ------------------------------------------------------------------- submitting */

tutti_options ends_on(void *stream)
{
    tutti_options options;

    tutti_options_default(&options);
    options.stream = stream;
    return options;
}

tutti_request ends_sum(struct ends_rank *r, const char *name, const float *input,
        float *output, int64_t count, void *stream)
{
    const tutti_options options = ends_on(stream);
    tutti_request request = TUTTI_REQUEST_NULL;

    CHECK(tutti_allreduce_async(r->t, name, input, output, count, TUTTI_FLOAT32,
                  TUTTI_SUM, &options, &request) == TUTTI_OK);
    return request;
}

void ends_whole_sum_of(struct ends_rank *r, const char *name, float *tensor,
        float *pinned, int64_t count)
{
    tutti_request request;

    ends_fill(r, tensor, (float)(r->rank + 1), count, r->stream);
    request = ends_sum(r, name, tensor, tensor, count, r->stream);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    ends_take(r, pinned, tensor, count, r->stream);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_expect(r, pinned, ends_total(r), count);
}

void ends_whole_sum(struct ends_rank *r, const char *name)
{
    enum {
        COUNT = 100
    };

    ends_whole_sum_of(r, name, ends_alloc(r, COUNT), ends_pinned(r, COUNT), COUNT);
}

tutti_stats ends_stats(struct ends_rank *r)
{
    tutti_stats stats = { .size = sizeof stats };

    CHECK(tutti_stats_get(r->t, &stats) == TUTTI_OK);
    return stats;
}

float ends_total(const struct ends_rank *r)
{
    return (float)(r->size * (r->size + 1)) / 2;
}

tutti_status ends_sum_in(
        struct ends_rank *r, const char *name, tutti_process_set set, float total)
{
    tutti_options options = ends_on(r->stream);
    float *memory = ends_alloc(r, 1);
    tutti_status status;
    float host = 0;

    ends_fill(r, memory, (float)(r->rank + 1), 1, r->stream);
    options.process_set = set;
    status = tutti_allreduce(
            r->t, name, memory, memory, 1, TUTTI_FLOAT32, TUTTI_SUM, &options);
    CHECK(status != TUTTI_OK ||
            gpusim_read(&host, (uint64_t)(uintptr_t)memory, sizeof host));
    CHECK(status != TUTTI_OK || host == total);
    return status;
}

/* -------------------------------------------------------------------- many tensors */

enum {
    APART = 3, /* elements; two are reduced, and the third is nobody's */
    MANY = ENDS_MANY_FLOATS / APART
};

void ends_sum_many(struct ends_rank *r, float *block, int left_out, void *waits)
{
    static tutti_request requests[ENDS_RANKS_MAX][MANY];

    ends_fill(r, block, (float)(r->rank + 1), ENDS_MANY_FLOATS, r->stream);
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    for (int i = 0; i < MANY; i++) {
        float *tensor = block + (ptrdiff_t)(i * APART);
        char name[16];

        (void)snprintf(name, sizeof name, "%d", i);
        requests[r->rank][i] = i == left_out
                ? TUTTI_REQUEST_NULL
                : ends_sum(r, name, tensor, tensor, 2, r->stream);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
    CHECK(tutti_wait_stream_all(r->t, MANY, requests[r->rank], waits, ENDS_PATIENCE,
                  NULL) == TUTTI_OK);
}

void ends_expect_many(struct ends_rank *r, const float *seen, int left_out)
{
    for (int i = 0; i < MANY; i++) {
        const float *tensor = seen + (ptrdiff_t)(i * APART);
        const float own = (float)(r->rank + 1);

        ends_expect(r, tensor, i == left_out ? own : ends_total(r), 2);
        ends_expect(r, tensor + 2, own, 1);
    }
}
