/*
 * Jobs over the simulated GPU whose ranks are threads, and what those of MPI share with them.
 */
#include "test/gpu/ends.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/gpusim/nccl/gpusim_nccl.h"

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
    const struct ends_rank nobody = { .rank = -1 };
    const struct ends_rank *r = &nobody;

    CHECK(tutti_config_set(job->config, name, value) == TUTTI_OK);
}

/* "name=value name=value" */
static void set_all(struct ends_job *job, const char *parameters)
{
    char text[256];
    char *at = text;

    (void)snprintf(text, sizeof text, "%s", parameters);
    while (*at != '\0') {
        char *equals = strchr(at, '=');
        char *end = at + strcspn(at, " ");
        const bool is_last = *end == '\0';

        *equals = '\0';
        *end = '\0';
        set(job, at, equals + 1);
        at = is_last ? end : end + 1;
    }
}

void ends_configure(
        struct ends_job *job, const struct ends_case *what, const char *nccl)
{
    const struct ends_rank nobody = { .rank = -1 };
    const struct ends_rank *r = &nobody;

    job->what = what;
    job->nccl = nccl;
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

void ends_await(bool (*is_so)(void *what), void *what)
{
    while (!is_so(what)) {
        ends_nap();
    }
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

    if (live.device_allocations + live.host_allocations + live.streams + live.events +
                    live.modules + live.retained + nccl.comms + nccl.registrations +
                    nccl.allocations ==
            0) {
        return 0;
    }
    (void)fprintf(stderr,
            "left: %zu device, %zu host, %zu streams, %zu events, %zu modules, %zu "
            "contexts, %zu communicators, %zu registrations\n",
            live.device_allocations, live.host_allocations, live.streams, live.events,
            live.modules, live.retained, nccl.comms, nccl.registrations);
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
    uint64_t address = 0;

    CHECK(cuMemAlloc_v2(&address, (size_t)count * sizeof(float)) == CUDA_SUCCESS);
    return (float *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

void ends_free(struct ends_rank *r, float *memory)
{
    CHECK(cuMemFree_v2((uint64_t)(uintptr_t)memory) == CUDA_SUCCESS);
}

float *ends_pinned(struct ends_rank *r, int64_t count)
{
    void *memory = NULL;

    CHECK(cuMemHostAlloc(&memory, (size_t)count * sizeof(float), 0) == CUDA_SUCCESS);
    return memory;
}

void ends_unpin(struct ends_rank *r, float *memory)
{
    CHECK(cuMemFreeHost(memory) == CUDA_SUCCESS);
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
    float *memory = ends_alloc(r, COUNT);
    float *pinned = ends_pinned(r, COUNT);

    ends_whole_sum_of(r, name, memory, pinned, COUNT);
    ends_unpin(r, pinned);
    ends_free(r, memory);
}

float ends_total(const struct ends_rank *r)
{
    return (float)(r->size * (r->size + 1)) / 2;
}
