/*
 * Tensors made and used on streams, from end to end: nothing here waits on the host but where
 * it says so, streams are late at random, and the simulator accuses whoever reads or writes
 * with nothing that orders it.
 *
 *     test_gpu_streams CASE RANKS NCCL
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "test/gpu/ends.h"

enum {
    COUNT = 300,
    LAYERS = 5,
    STEPS = 12,
    WARM = 7 /* of them, until a step is planned */
};

#define LEGACY NULL
#define PER_THREAD ((void *)(uintptr_t)2) // NOLINT(performance-no-int-to-ptr)

/* ---------------------------------------------------------------------- a trainer */

/** Gradients, their sums, and what the updates saw of them. */
struct trainer {
    float *gradients[LAYERS];
    float *sums[LAYERS];
    float *seen; /* pinned: of each step, of each layer, COUNT                    */
    tutti_request requests[LAYERS];
};

static void trainer_init(struct ends_rank *r, struct trainer *trainer)
{
    for (int l = 0; l < LAYERS; l++) {
        trainer->gradients[l] = ends_alloc(r, COUNT);
        trainer->sums[l] = ends_alloc(r, COUNT);
    }
    trainer->seen = ends_pinned(r, (int64_t)STEPS * LAYERS * COUNT);
}

static float *seen_at(const struct trainer *trainer, int step, int layer)
{
    return trainer->seen + (ptrdiff_t)(step * LAYERS + layer) * COUNT;
}

/* Different on each rank, of each layer, in each step. */
static float gradient_of(int rank, int step, int layer)
{
    return (float)((rank + 1) * (1 + layer + LAYERS * step));
}

/* The host waits here, for all streams, and looks at what they have seen. */
static void trainer_end(struct ends_rank *r, struct trainer *trainer)
{
    gpusim_settle();
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    for (int step = 0; step < STEPS; step++) {
        for (int l = 0; l < LAYERS; l++) {
            ends_expect(r, seen_at(trainer, step, l),
                    ends_total(r) * gradient_of(0, step, l), COUNT);
        }
    }
    for (int l = 0; l < LAYERS; l++) {
        ends_free(r, trainer->gradients[l]);
        ends_free(r, trainer->sums[l]);
    }
    ends_unpin(r, trainer->seen);
}

static void backward(
        struct ends_rank *r, struct trainer *trainer, int step, void *stream)
{
    char name[16];

    for (int l = 0; l < LAYERS; l++) {
        (void)snprintf(name, sizeof name, "layer %d", l);
        ends_fill(
                r, trainer->gradients[l], gradient_of(r->rank, step, l), COUNT, stream);
        trainer->requests[l] = ends_sum(
                r, name, trainer->gradients[l], trainer->sums[l], COUNT, stream);
    }
}

static void update(struct ends_rank *r, struct trainer *trainer, int step, void *stream)
{
    for (int l = 0; l < LAYERS; l++) {
        ends_take(r, seen_at(trainer, step, l), trainer->sums[l], COUNT, stream);
        /* The input is the stream's again. */
        ends_fill(r, trainer->gradients[l], -1, COUNT, stream);
    }
}

static void wait_all(struct ends_rank *r, struct trainer *trainer, void *stream)
{
    CHECK(tutti_wait_stream_all(r->t, LAYERS, trainer->requests, stream, ENDS_PATIENCE,
                  NULL) == TUTTI_OK);
}

static void train_on(struct ends_rank *r, void *stream)
{
    struct trainer trainer;

    trainer_init(r, &trainer);
    for (int step = 0; step < STEPS; step++) {
        backward(r, &trainer, step, stream);
        wait_all(r, &trainer, stream);
        update(r, &trainer, step, stream);
    }
    trainer_end(r, &trainer);
}

/* --------------------------------------------------------------- kinds of streams */

static void run_one_stream(struct ends_rank *r)
{
    gpusim_slow(r->stream, 300 * (r->rank + 1));
    train_on(r, r->stream);
}

static void run_legacy_stream(struct ends_rank *r)
{
    train_on(r, LEGACY);
}

static void run_thread_stream(struct ends_rank *r)
{
    train_on(r, PER_THREAD);
}

/* The trainer's stream is an ordinary one; what it names is the default, behind it. */
static void run_blocking_stream(struct ends_rank *r)
{
    struct trainer trainer;
    void *blocking = NULL;

    CHECK(cuStreamCreate(&blocking, 0) == CUDA_SUCCESS);
    trainer_init(r, &trainer);
    for (int step = 0; step < STEPS; step++) {
        for (int l = 0; l < LAYERS; l++) {
            char name[16];

            (void)snprintf(name, sizeof name, "layer %d", l);
            ends_fill(r, trainer.gradients[l], gradient_of(r->rank, step, l), COUNT,
                    blocking);
            trainer.requests[l] = ends_sum(
                    r, name, trainer.gradients[l], trainer.sums[l], COUNT, LEGACY);
        }
        wait_all(r, &trainer, LEGACY);
        update(r, &trainer, step, blocking);
    }
    trainer_end(r, &trainer);
    CHECK(cuStreamDestroy_v2(blocking) == CUDA_SUCCESS);
}

/* Made on one stream, used on another; the first waits for the second by the caller's event. */
static void run_two_streams(struct ends_rank *r)
{
    struct trainer trainer;
    void *other = NULL;
    void *event = NULL;

    CHECK(cuStreamCreate(&other, 1) == CUDA_SUCCESS);
    CHECK(cuEventCreate(&event, 2) == CUDA_SUCCESS);
    gpusim_slow(r->rank % 2 == 0 ? other : r->stream, 500);
    trainer_init(r, &trainer);
    for (int step = 0; step < STEPS; step++) {
        backward(r, &trainer, step, r->stream);
        wait_all(r, &trainer, other);
        update(r, &trainer, step, other);
        CHECK(cuEventRecord(event, other) == CUDA_SUCCESS);
        CHECK(cuStreamWaitEvent(r->stream, event, 0) == CUDA_SUCCESS);
    }
    trainer_end(r, &trainer);
    CHECK(cuEventDestroy_v2(event) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy_v2(other) == CUDA_SUCCESS);
}

/* Each layer has a stream of its own, and they are waited for together. */
static void run_stream_of_each(struct ends_rank *r)
{
    struct trainer trainer;
    void *streams[LAYERS];
    void *event = NULL;

    CHECK(cuEventCreate(&event, 2) == CUDA_SUCCESS);
    trainer_init(r, &trainer);
    for (int l = 0; l < LAYERS; l++) {
        CHECK(cuStreamCreate(&streams[l], 1) == CUDA_SUCCESS);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int l = 0; l < LAYERS; l++) {
            char name[16];

            (void)snprintf(name, sizeof name, "layer %d", l);
            ends_fill(r, trainer.gradients[l], gradient_of(r->rank, step, l), COUNT,
                    streams[l]);
            trainer.requests[l] = ends_sum(
                    r, name, trainer.gradients[l], trainer.sums[l], COUNT, streams[l]);
        }
        wait_all(r, &trainer, r->stream);
        update(r, &trainer, step, r->stream);
        CHECK(cuEventRecord(event, r->stream) == CUDA_SUCCESS);
        for (int l = 0; l < LAYERS; l++) {
            CHECK(cuStreamWaitEvent(streams[l], event, 0) == CUDA_SUCCESS);
        }
    }
    trainer_end(r, &trainer);
    for (int l = 0; l < LAYERS; l++) {
        CHECK(cuStreamDestroy_v2(streams[l]) == CUDA_SUCCESS);
    }
    CHECK(cuEventDestroy_v2(event) == CUDA_SUCCESS);
}

/* ------------------------------------------------------------------ ends on the host */

/* After tutti_wait() the host may use it, and other streams may. */
static void run_host_wait(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    float host[COUNT];

    gpusim_slow(r->stream, 500);
    for (int step = 0; step < STEPS; step++) {
        tutti_request request;

        ends_fill(r, memory, gradient_of(r->rank, step, 0), COUNT, r->stream);
        request = ends_sum(r, "x", memory, memory, COUNT, r->stream);
        CHECK(tutti_wait(r->t, &request, ENDS_PATIENCE) == TUTTI_OK);
        CHECK(gpusim_read(host, (uint64_t)(uintptr_t)memory, sizeof host));
        ends_expect(r, host, ends_total(r) * gradient_of(0, step, 0), COUNT);
    }
    ends_free(r, memory);
}

/** What a callback has found; it runs in the engine's thread. */
struct called {
    struct ends_rank *r;
    const float *memory;
    float host[COUNT];
    bool was_read;
    _Atomic int status; /* TUTTI_AGAIN: not called yet */
};

static void on_done(void *user, tutti_status status, const char *message)
{
    struct called *called = user;

    (void)message;
    called->was_read = gpusim_read(
            called->host, (uint64_t)(uintptr_t)called->memory, sizeof called->host);
    atomic_store(&called->status, (int)status);
}

static bool was_called(void *what)
{
    const struct called *called = what;

    return atomic_load(&called->status) != TUTTI_AGAIN;
}

static void run_callbacks(struct ends_rank *r)
{
    struct called called = { .r = r };
    tutti_options options = ends_on(r->stream);
    float *memory = ends_alloc(r, COUNT);

    called.memory = memory;
    options.callback = on_done;
    options.user = &called;
    gpusim_slow(r->stream, 500);
    for (int step = 0; step < STEPS; step++) {
        atomic_store(&called.status, TUTTI_AGAIN);
        ends_fill(r, memory, gradient_of(r->rank, step, 0), COUNT, r->stream);
        CHECK(tutti_allreduce_async(r->t, "x", memory, memory, COUNT, TUTTI_FLOAT32,
                      TUTTI_SUM, &options, NULL) == TUTTI_OK);
        ends_await(r, was_called, &called);
        CHECK(atomic_load(&called.status) == TUTTI_OK && called.was_read);
        ends_expect(r, called.host, ends_total(r) * gradient_of(0, step, 0), COUNT);
    }
    ends_free(r, memory);
}

/* ---------------------------------------------------------------- memory and names */

/* What is given back while tutti's streams use it is not given out before they are done. */
static void run_free_at_once(struct ends_rank *r)
{
    float *pinned = ends_pinned(r, (int64_t)STEPS * COUNT);

    gpusim_slow(r->stream, 300);
    for (int step = 0; step < STEPS; step++) {
        void *input = NULL;
        void *output = NULL;
        tutti_request request;

        CHECK(tutti_alloc(r->t, COUNT * sizeof(float), TUTTI_DEVICE, &input) ==
                TUTTI_OK);
        CHECK(tutti_alloc(r->t, COUNT * sizeof(float), TUTTI_DEVICE, &output) ==
                TUTTI_OK);
        ends_fill(r, input, gradient_of(r->rank, step, 0), COUNT, r->stream);
        request = ends_sum(r, "x", input, output, COUNT, r->stream);
        CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
        CHECK(tutti_free(r->t, input) == TUTTI_OK);
        ends_take(r, pinned + (ptrdiff_t)step * COUNT, output, COUNT, r->stream);
        if (step % 3 == 0) { /* the caller's own copy must be over */
            CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
            CHECK(tutti_free(r->t, output) == TUTTI_OK);
        }
    }
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    for (int step = 0; step < STEPS; step++) {
        ends_expect(r, pinned + (ptrdiff_t)step * COUNT,
                ends_total(r) * gradient_of(0, step, 0), COUNT);
    }
    ends_unpin(r, pinned);
}

/*
 * The host is steps ahead of a GPU that has not begun, under the same names: nothing of it
 * has been carried out when the last one is handed over.
 */
static void run_ahead(struct ends_rank *r)
{
    struct trainer trainer;
    uint64_t pending;

    trainer_init(r, &trainer);
    /* Communicators are made once, and that takes its time. */
    ends_whole_sum(r, "first");
    gpusim_hold(r->stream);
    for (int step = 0; step < STEPS; step++) {
        backward(r, &trainer, step, r->stream);
        wait_all(r, &trainer, r->stream);
        update(r, &trainer, step, r->stream);
    }
    pending = gpusim_pending(r->stream);
    gpusim_release(r->stream);
    CHECK(pending >= (uint64_t)STEPS * LAYERS * 3);
    trainer_end(r, &trainer);
}

/* --------------------------------------------------------------------- what it costs */

/* Calls that make the host wait, or that are for start-up alone. */
static const char *const never[] = { "cuEventSynchronize", "cuStreamSynchronize",
    "cuCtxSynchronize", "cuMemAlloc_v2", "cuMemAllocManaged", "cuMemHostAlloc",
    "cuMemAllocHost_v2", "cuMemFree_v2", "cuMemFreeHost", "cuEventCreate",
    "cuEventDestroy_v2", "cuStreamCreate", "cuStreamCreateWithPriority", "ncclMemAlloc",
    "ncclMemFree", "cuMemcpyHtoDAsync_v2", "cuMemcpyAsync", "cuModuleLoadData",
    "cuMemcpyHtoD_v2", "cuLibraryLoadData" };

enum {
    NEVER = sizeof never / sizeof *never
};

static tutti_stats stats_of(struct ends_rank *r)
{
    tutti_stats stats = { .size = sizeof stats };

    CHECK(tutti_stats_get(r->t, &stats) == TUTTI_OK);
    return stats;
}

/* The backward pass as one group. */
static void grouped(struct ends_rank *r, struct trainer *trainer, int step)
{
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    backward(r, trainer, step, r->stream);
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
}

static void planned_step(struct ends_rank *r, struct trainer *trainer, int step)
{
    grouped(r, trainer, step);
    wait_all(r, trainer, r->stream);
    update(r, trainer, step, r->stream);
}

/*
 * More steps in flight than will be measured, so that there are as many events and slabs as
 * are needed then; and the end of the last, so that they are there to be used again.
 */
static void warm_up(struct ends_rank *r, struct trainer *trainer)
{
    gpusim_hold(r->stream);
    for (int step = 0; step < WARM - 1; step++) {
        planned_step(r, trainer, step);
    }
    gpusim_release(r->stream);
    grouped(r, trainer, WARM - 1);
    CHECK(tutti_wait_all(r->t, LAYERS, trainer->requests, ENDS_PATIENCE, NULL) ==
            TUTTI_OK);
    update(r, trainer, WARM - 1, r->stream);
}

/*
 * Once planned, a step is one batch, packed by one kernel and unpacked by another; the host
 * waits for nothing, and nothing is made.
 */
static void run_planned_cost(struct ends_rank *r)
{
    struct trainer trainer;
    struct gpusim_live live;
    tutti_stats before;
    tutti_stats after;
    long calls[NEVER];
    long launches;

    trainer_init(r, &trainer);
    warm_up(r, &trainer);
    ends_meet(r);
    before = stats_of(r);
    live = gpusim_live();
    launches = gpusim_calls("cuLaunchKernel");
    for (int i = 0; i < NEVER; i++) {
        calls[i] = gpusim_calls(never[i]);
    }
    ends_meet(r);
    for (int step = WARM; step < STEPS; step++) {
        planned_step(r, &trainer, step);
    }
    ends_meet(r);
    after = stats_of(r);
    for (int i = 0; i < NEVER; i++) {
        if (gpusim_calls(never[i]) != calls[i]) {
            (void)fprintf(stderr, "%s was called %ld times\n", never[i],
                    gpusim_calls(never[i]) - calls[i]);
            CHECK(false && "a planned step does without it");
        }
    }
    launches = gpusim_calls("cuLaunchKernel") - launches;
    CHECK(gpusim_live().device_bytes == live.device_bytes);
    CHECK(gpusim_live().host_bytes == live.host_bytes);
    CHECK(gpusim_live().events == live.events && gpusim_live().streams == live.streams);
    ends_meet(r);
    CHECK(after.planned_steps - before.planned_steps == STEPS - WARM);
    CHECK(after.device_batches - before.device_batches == STEPS - WARM);
    CHECK(after.device_packed - before.device_packed == STEPS - WARM);
    CHECK(after.device_launches - before.device_launches == 2 * (STEPS - WARM));
    CHECK(launches == 2L * (STEPS - WARM) * r->size);
    CHECK(after.device_staged == 0);
    trainer_end(r, &trainer);
}

/* ------------------------------------------------------------------------------ main */

static const struct ends_case cases[] = {
    { .name = "one_stream", .body = run_one_stream, .parameters = "" },
    { .name = "legacy_stream", .body = run_legacy_stream, .parameters = "" },
    { .name = "thread_stream", .body = run_thread_stream, .parameters = "" },
    { .name = "blocking_stream", .body = run_blocking_stream, .parameters = "" },
    { .name = "two_streams", .body = run_two_streams, .parameters = "" },
    { .name = "stream_of_each", .body = run_stream_of_each, .parameters = "" },
    { .name = "host_wait", .body = run_host_wait, .parameters = "" },
    { .name = "callbacks", .body = run_callbacks, .parameters = "" },
    { .name = "free_at_once", .body = run_free_at_once, .parameters = "" },
    { .name = "ahead", .body = run_ahead, .parameters = "" },
    { .name = "planned_cost", .body = run_planned_cost, .parameters = "" },
};

int main(int argc, char **argv)
{
    return ends_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
