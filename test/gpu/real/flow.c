/*
 * What streams, captures and aborts do to operations on device memory.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/batch/pattern.h"
#include "test/batch/reference.h"
#include "test/gpu/real/suite.h"

#define STREAMS 4
#define STEPS 15
#define TENSORS 2
#define COUNT 256 /* floats of a sum that is held or captured */
#define SECONDS_60 INT64_C(60000000000)

/* ----------------------------------------------------------------------------- order */

static const size_t counts[TENSORS] = { 100003, 517 };

/** What one stream works on. */
struct lane {
    cu_stream stream; /* of the work before and behind                         */
    cu_stream named; /* given to tutti: usually the same                       */
    void *gradient[TENSORS]; /* device memory, made anew at each step            */
    char *steps[TENSORS]; /* the gradients of all steps, and then their sums     */
    void *busy; /* memory to write in front of what counts                       */
};

static size_t bytes_of(size_t tensor)
{
    return counts[tensor] * sizeof(float);
}

static size_t busy_bytes(const struct suite *s)
{
    return s->rig.simulated ? 4096 : (size_t)256 << 20;
}

static struct pattern pattern_of(int lane, int step, size_t tensor)
{
    return (struct pattern){ .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .salt = (uint32_t)((lane * STEPS + step) * TENSORS) + (uint32_t)tensor };
}

/* Two of the caller's, the default one of the thread, and a blocking one beside the legacy one. */
static void lane_init(struct suite *s, struct lane *lane, int index)
{
    const unsigned flags = index == 3 ? CU_STREAM_BLOCKING : CU_STREAM_NONBLOCKING;

    lane->stream = CU_THREAD_STREAM;
    if (index != 2) {
        DEVICE_MUST(&s->rig, stream_create(&lane->stream, flags, 0));
    }
    lane->named = index == 3 ? NULL : lane->stream;
    lane->busy = device_memory(&s->rig, busy_bytes(s));
    for (size_t k = 0; k < TENSORS; k++) {
        float *values = must_alloc(STEPS, bytes_of(k));

        for (int step = 0; step < STEPS; step++) {
            const struct pattern pattern = pattern_of(index, step, k);

            pattern_fill(
                    &pattern, s->c.rank, values + (size_t)step * counts[k], counts[k]);
        }
        lane->gradient[k] = device_memory(&s->rig, bytes_of(k));
        lane->steps[k] = device_memory(&s->rig, STEPS * bytes_of(k));
        device_upload(&s->rig, lane->steps[k], values, STEPS * bytes_of(k));
        free(values);
    }
}

static void copy(struct suite *s, const struct lane *lane, void *to, const void *from,
        size_t bytes)
{
    DEVICE_MUST(&s->rig,
            memcpy_dtod_async(
                    device_address(to), device_address(from), bytes, lane->stream));
}

static void overwrite(
        struct suite *s, const struct lane *lane, void *memory, size_t bytes)
{
    DEVICE_MUST(&s->rig,
            memset_d8_async(device_address(memory), 0xff, bytes, lane->stream));
}

/* A step with no wait of the host for the GPU: the gradients are overwritten at its end. */
static void run_step(struct suite *s, struct lane *lane, int index, int step)
{
    tutti_request requests[TENSORS] = { TUTTI_REQUEST_NULL };
    char name[32];

    /* What does not wait for the work in front reads too early. */
    for (int i = 0; i < (s->rig.simulated ? 1 : 8); i++) {
        overwrite(s, lane, lane->busy, busy_bytes(s));
    }
    for (size_t k = 0; k < TENSORS; k++) {
        copy(s, lane, lane->gradient[k], lane->steps[k] + (size_t)step * bytes_of(k),
                bytes_of(k));
        (void)snprintf(name, sizeof name, "order %d.%zu", index, k);
        EXPECT_OK(&s->c,
                suite_sum(s, name, lane->gradient[k], counts[k], lane->named,
                        &requests[k]));
    }
    EXPECT_OK(&s->c,
            tutti_wait_stream_all(
                    s->t, TENSORS, requests, lane->named, TUTTI_FOREVER, NULL));
    for (size_t k = 0; k < TENSORS; k++) {
        copy(s, lane, lane->steps[k] + (size_t)step * bytes_of(k), lane->gradient[k],
                bytes_of(k));
        overwrite(s, lane, lane->gradient[k], bytes_of(k));
    }
}

static void lane_end(struct suite *s, struct lane *lane, int index)
{
    static const struct scales none = { 1, 1 };

    DEVICE_MUST(&s->rig, stream_synchronize(lane->stream));
    for (size_t k = 0; k < TENSORS; k++) {
        float *sums = must_alloc(STEPS, bytes_of(k));
        float *wanted = must_alloc(1, bytes_of(k));

        device_download(&s->rig, sums, lane->steps[k], STEPS * bytes_of(k));
        for (int step = 0; step < STEPS; step++) {
            const struct pattern pattern = pattern_of(index, step, k);

            pattern_expect(&pattern, s->c.size, none, wanted, counts[k]);
            EXPECT(&s->c,
                    memcmp(wanted, sums + (size_t)step * counts[k], bytes_of(k)) == 0);
        }
        free(sums);
        free(wanted);
        device_drop(&s->rig, lane->gradient[k]);
        device_drop(&s->rig, lane->steps[k]);
    }
    device_drop(&s->rig, lane->busy);
    if (lane->stream != CU_THREAD_STREAM) {
        DEVICE_MUST(&s->rig, stream_destroy(lane->stream));
    }
}

void suite_order(struct suite *s)
{
    struct lane lanes[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        lane_init(s, &lanes[i], i);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < STREAMS; i++) {
            run_step(s, &lanes[i], i, step);
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        lane_end(s, &lanes[i], i);
    }
}

/* ---------------------------------------------------------------------- held streams */

/* Runs on a thread of the driver, in front of what is to wait. */
static void hold(void *user)
{
    const atomic_bool *released = user;

    while (!atomic_load(released)) {
        (void)usleep(1000);
    }
}

/* The first operation on a GPU still connects ranks and loads code, which waits for the device. */
static void warm_up(struct suite *s, void *memory)
{
    tutti_request request = TUTTI_REQUEST_NULL;

    EXPECT_OK(&s->c, suite_sum(s, "warm-up", memory, COUNT, s->rig.stream, &request));
    EXPECT_OK(&s->c, tutti_wait(s->t, &request, TUTTI_FOREVER));
}

static void hold_stream(struct suite *s, atomic_bool *released)
{
    atomic_store(released, false);
    DEVICE_MUST(&s->rig, launch_host_func(s->rig.stream, hold, released));
}

/* --------------------------------------------------------------------------- capture */

#define CAPTURE_GLOBAL 0
#define REPLAYS 5

/** What the library does not use of the driver. */
struct graph_calls {
    cu_result (*begin)(cu_stream stream, cu_capture_mode mode);
    cu_result (*end)(cu_stream stream, void **graph);
    cu_result (*instantiate)(void **exec, void *graph, unsigned long long flags);
    cu_result (*launch)(void *exec, cu_stream stream);
    cu_result (*destroy)(void *graph);
    cu_result (*destroy_exec)(void *exec);
};

static bool find_calls(const struct suite *s, struct graph_calls *calls)
{
    const struct {
        const char *symbol;
        void *function;
    } all[] = { { "cuStreamBeginCapture_v2", &calls->begin },
        { "cuStreamEndCapture", &calls->end },
        { "cuGraphInstantiateWithFlags", &calls->instantiate },
        { "cuGraphLaunch", &calls->launch }, { "cuGraphDestroy", &calls->destroy },
        { "cuGraphExecDestroy", &calls->destroy_exec } };
    void *library = dlopen(s->rig.config.cuda_library, RTLD_NOW | RTLD_LOCAL);
    bool are_there = library != NULL;

    for (size_t i = 0; i < sizeof all / sizeof *all && are_there; i++) {
        void *found = dlsym(library, all[i].symbol);

        memcpy(all[i].function, &found, sizeof found);
        are_there = found != NULL;
    }
    return are_there;
}

/* A capture lives on when a sum is refused on its stream, and so is one that is to go on there. */
static void capture(struct suite *s, const struct graph_calls *calls, void *memory)
{
    static atomic_bool released;
    tutti_request before = TUTTI_REQUEST_NULL;
    tutti_request request = TUTTI_REQUEST_NULL;
    cu_stream captured = NULL;
    void *graph = NULL;

    DEVICE_MUST(&s->rig, stream_create(&captured, CU_STREAM_NONBLOCKING, 0));
    warm_up(s, memory);
    if (!s->staged) { /* else it is not issued before it is done */
        hold_stream(s, &released);
    }
    EXPECT_OK(&s->c, suite_sum(s, "before", memory, COUNT, s->rig.stream, &before));
    device_must(&s->rig, calls->begin(captured, CAPTURE_GLOBAL), "begin a capture");
    EXPECT_STATUS(&s->c, TUTTI_ERR_INVALID,
            suite_sum(s, "captured", memory, COUNT, captured, &request));
    EXPECT(&s->c, strstr(tutti_last_error(), "captured in a CUDA graph") != NULL);
    EXPECT(&s->c,
            s->staged ||
                    tutti_wait_stream(s->t, &before, captured, SECONDS_60) ==
                            TUTTI_ERR_INVALID);
    device_must(&s->rig, calls->end(captured, &graph), "end a capture");
    atomic_store(&released, true);
    EXPECT_OK(&s->c, tutti_wait(s->t, &before, TUTTI_FOREVER));
    EXPECT_OK(&s->c, suite_sum(s, "after", memory, COUNT, captured, &request));
    EXPECT_OK(&s->c, tutti_wait_stream(s->t, &request, captured, SECONDS_60));
    DEVICE_MUST(&s->rig, stream_synchronize(captured));
    device_must(&s->rig, calls->destroy(graph), "destroy a graph");
    DEVICE_MUST(&s->rig, stream_destroy(captured));
}

/* One launch: other gradients, one place for all. */
static void launch_once(struct suite *s, const struct graph_calls *calls, void *exec,
        void *memory, int number)
{
    float values[COUNT];
    const float expected =
            (float)(number * s->c.size + s->c.size * (s->c.size + 1) / 2);

    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(s->c.rank + 1 + number);
    }
    device_upload(&s->rig, memory, values, sizeof values);
    device_must(&s->rig, calls->launch(exec, s->rig.stream), "launch a graph");
    device_download(&s->rig, values, memory, sizeof values);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(&s->c, memcmp(&values[i], &expected, sizeof expected) == 0);
    }
}

/* With issue=caller: a sum in a graph. */
static void replay(struct suite *s, const struct graph_calls *calls, void *memory)
{
    cu_stream stream = s->rig.stream;
    tutti_request request = TUTTI_REQUEST_NULL;
    void *graph = NULL;
    void *exec = NULL;

    warm_up(s, memory);
    device_must(&s->rig, calls->begin(stream, CAPTURE_GLOBAL), "begin a capture");
    EXPECT_OK(&s->c, suite_sum(s, "captured", memory, COUNT, stream, &request));
    EXPECT_OK(&s->c, tutti_wait_stream(s->t, &request, stream, SECONDS_60));
    device_must(&s->rig, calls->end(stream, &graph), "end a capture");
    device_must(&s->rig, calls->instantiate(&exec, graph, 0), "instantiate a graph");
    for (int i = 0; i < REPLAYS; i++) {
        launch_once(s, calls, exec, memory, i);
        warm_up(s, memory); /* beside it, in the same order on all ranks */
    }
    device_must(&s->rig, calls->destroy_exec(exec), "destroy an executable");
    device_must(&s->rig, calls->destroy(graph), "destroy a graph");
}

void suite_capture(struct suite *s)
{
    const bool is_taken = s->rig.config.issue == CONFIG_ISSUE_CALLER && !s->staged;
    void *memory = device_memory(&s->rig, COUNT * sizeof(float));
    struct graph_calls calls;

    if (EXPECT(&s->c, find_calls(s, &calls))) {
        (is_taken ? replay : capture)(s, &calls, memory);
    }
    device_drop(&s->rig, memory);
}

/* ----------------------------------------------------------------------------- abort */

/*
 * Issued, or failed, for NCCL may not have said that it is on the stream before a rank gave up;
 * what is held back must not hold up this wait. What goes through host memory is issued when
 * the host has all inputs: rank 0 has none, and so only it may wait, for others give up.
 */
static void issue(struct suite *s, void *memory, tutti_request *request)
{
    tutti_status status = suite_sum(s, "held", memory, COUNT, s->rig.stream, request);

    if (status == TUTTI_OK && (!s->staged || s->c.rank == 0)) {
        status = tutti_wait_stream(s->t, request, s->rig.stream, SECONDS_60);
    }
    EXPECT(&s->c, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
}

/* What has failed stays until the GPU does not touch its buffers any more. */
static void end_pending(struct suite *s, tutti_request *request)
{
    if (*request != TUTTI_REQUEST_NULL) {
        EXPECT_STATUS(
                &s->c, TUTTI_ERR_CONTEXT_FAILED, tutti_wait(s->t, request, SECONDS_60));
    }
}

void suite_abort(struct suite *s)
{
    static atomic_bool released;
    void *memory = device_memory(&s->rig, COUNT * sizeof(float));
    tutti_request held = TUTTI_REQUEST_NULL;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status;

    if (s->c.size == 1) { /* there is nobody to leave alone */
        device_drop(&s->rig, memory);
        return;
    }
    warm_up(s, memory);
    /* All have ended what came before, which an abort would fail. It may fail this, too. */
    status = tutti_barrier(s->t, "before the abort", NULL);
    EXPECT(&s->c, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
    if (s->c.rank == 0) {
        hold_stream(s, &released);
    }
    issue(s, memory, &held);
    if (s->c.rank == s->c.size - 1) {
        EXPECT_OK(&s->c, tutti_abort(s->t, "a rank gave up"));
    }
    status = suite_sum(s, "after", memory, COUNT, s->rig.stream, &request);
    if (status == TUTTI_OK) {
        status = tutti_wait(s->t, &request, SECONDS_60);
    }
    EXPECT_STATUS(&s->c, TUTTI_ERR_CONTEXT_FAILED, status);
    EXPECT(&s->c, strstr(tutti_last_error(), "a rank gave up") != NULL);
    atomic_store(&released, true);
    EXPECT(&s->c, s->rig.cuda.stream_synchronize(s->rig.stream) == CU_SUCCESS);
    end_pending(s, &held);
    device_drop(&s->rig, memory);
    s->is_broken = true;
}
