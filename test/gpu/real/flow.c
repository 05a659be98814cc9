/*
 * What streams, captures and aborts do to operations on device memory.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/batch/reference.h"
#include "test/gpu/real/suite.h"
#include "test/suite/buffer.h"

#define STREAMS 4
#define STEPS 15
#define TENSORS 2
#define SECONDS_60 INT64_C(60000000000)

/* ----------------------------------------------------------------------------- order */

static const size_t counts[TENSORS] = { 100003, 517 };

/** What one stream works on. */
struct lane {
    cu_stream stream; /* of the work before and behind                         */
    cu_stream named; /* given to tutti: usually the same                       */
    void *gradient[TENSORS]; /* device memory, made anew at each step            */
    void *source[TENSORS]; /* STEPS gradients                                    */
    void *result[TENSORS]; /* STEPS sums                                         */
};

static float value_of(int rank, int lane, int step, size_t tensor, size_t i)
{
    return (float)((i * 7 + (size_t)(step * 5 + lane * 3 + rank * 11) + tensor) % 97);
}

static size_t bytes_of(size_t tensor)
{
    return counts[tensor] * sizeof(float);
}

static void make_values(const struct suite *s, int lane, size_t tensor, float *values)
{
    for (size_t at = 0; at < STEPS * counts[tensor]; at++) {
        values[at] = value_of(
                s->rank, lane, (int)(at / counts[tensor]), tensor, at % counts[tensor]);
    }
}

/* Two of the caller's, the default one of the thread, and a blocking one beside the legacy one. */
static void lane_streams(struct suite *s, struct lane *lane, int index)
{
    const unsigned flags = index == 3 ? CU_STREAM_BLOCKING : CU_STREAM_NONBLOCKING;

    if (index == 2) {
        lane->stream = CU_THREAD_STREAM;
    } else {
        device_must(&s->rig, s->rig.cuda.stream_create(&lane->stream, flags, 0),
                "make a stream");
    }
    lane->named = index == 3 ? NULL : lane->stream;
}

static void lane_init(struct suite *s, struct lane *lane, int index)
{
    lane_streams(s, lane, index);
    for (size_t k = 0; k < TENSORS; k++) {
        float *values = must_alloc(STEPS * counts[k], sizeof *values);

        make_values(s, index, k, values);
        lane->gradient[k] = device_memory(&s->rig, bytes_of(k));
        lane->source[k] = device_memory(&s->rig, STEPS * bytes_of(k));
        lane->result[k] = device_memory(&s->rig, STEPS * bytes_of(k));
        device_upload(&s->rig, lane->source[k], values, STEPS * bytes_of(k));
        free(values);
    }
}

static void lane_fini(struct suite *s, struct lane *lane)
{
    for (size_t k = 0; k < TENSORS; k++) {
        device_drop(&s->rig, lane->gradient[k]);
        device_drop(&s->rig, lane->source[k]);
        device_drop(&s->rig, lane->result[k]);
    }
    if (lane->stream != CU_THREAD_STREAM) {
        device_must(&s->rig, s->rig.cuda.stream_destroy(lane->stream), "end a stream");
    }
}

static void copy(
        struct suite *s, struct lane *lane, void *to, const void *from, size_t k)
{
    device_must(&s->rig,
            s->rig.cuda.memcpy_dtod_async(device_address(to), device_address(from),
                    bytes_of(k), lane->stream),
            "copy on a stream");
}

/* Work in front of what counts: what does not wait for it reads too early. */
static void keep_busy(
        struct suite *s, const struct lane *lane, void *memory, size_t bytes)
{
    for (int i = 0; i < (s->rig.simulated ? 1 : 8); i++) {
        device_must(&s->rig,
                s->rig.cuda.memset_d8_async(
                        device_address(memory), 0, bytes, lane->stream),
                "keep a stream busy");
    }
}

/* A step with no wait of the host for the GPU: the gradients are overwritten at its end. */
static void run_step(struct suite *s, struct lane *lane, int index, int step)
{
    tutti_request requests[TENSORS] = { TUTTI_REQUEST_NULL };
    tutti_options options;
    char name[32];

    tutti_options_default(&options);
    options.stream = lane->named;
    for (size_t k = 0; k < TENSORS; k++) {
        const size_t at = (size_t)step * bytes_of(k);

        copy(s, lane, lane->gradient[k], (const char *)lane->source[k] + at, k);
        (void)snprintf(name, sizeof name, "order %d.%zu", index, k);
        (void)SUITE_EXPECT(s,
                tutti_allreduce_async(s->t, name, lane->gradient[k], lane->gradient[k],
                        (int64_t)counts[k], TUTTI_FLOAT32, TUTTI_SUM, &options,
                        &requests[k]) == TUTTI_OK);
    }
    (void)SUITE_EXPECT(s,
            tutti_wait_stream_all(s->t, TENSORS, requests, lane->named, TUTTI_FOREVER,
                    NULL) == TUTTI_OK);
    for (size_t k = 0; k < TENSORS; k++) {
        copy(s, lane, (char *)lane->result[k] + (size_t)step * bytes_of(k),
                lane->gradient[k], k);
        device_must(&s->rig,
                s->rig.cuda.memset_d8_async(device_address(lane->gradient[k]), 0xff,
                        bytes_of(k), lane->stream),
                "overwrite a gradient");
    }
}

static bool sums_are_right(
        const struct suite *s, const float *sums, int index, int step, size_t k)
{
    for (size_t i = 0; i < counts[k]; i++) {
        float wanted = 0;

        for (int rank = 0; rank < s->size; rank++) {
            wanted += value_of(rank, index, step, k, i);
        }
        if (sums[i] != wanted) {
            (void)fprintf(stderr,
                    "lane %d, step %d, tensor %zu, element %zu: %g and not %g\n", index,
                    step, k, i, (double)sums[i], (double)wanted);
            return false;
        }
    }
    return true;
}

static void check_lane(struct suite *s, const struct lane *lane, int index)
{
    for (size_t k = 0; k < TENSORS; k++) {
        float *sums = must_alloc(STEPS, bytes_of(k));

        device_download(&s->rig, sums, lane->result[k], STEPS * bytes_of(k));
        for (int step = 0; step < STEPS; step++) {
            (void)SUITE_EXPECT(s,
                    sums_are_right(s, sums + (size_t)step * counts[k], index, step, k));
        }
        free(sums);
    }
}

void suite_order(struct suite *s)
{
    const size_t busy_bytes = s->rig.simulated ? 4096 : (size_t)256 << 20;
    struct lane lanes[STREAMS];
    void *busy[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        lane_init(s, &lanes[i], i);
        busy[i] = device_memory(&s->rig, busy_bytes);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < STREAMS; i++) {
            keep_busy(s, &lanes[i], busy[i], busy_bytes);
            run_step(s, &lanes[i], i, step);
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        device_must(&s->rig, s->rig.cuda.stream_synchronize(lanes[i].stream), "wait");
        check_lane(s, &lanes[i], i);
        lane_fini(s, &lanes[i]);
        device_drop(&s->rig, busy[i]);
    }
}

/* ---------------------------------------------------------------------- held streams */

static tutti_status sum(struct suite *s, const char *name, void *memory,
        cu_stream stream, tutti_request *request)
{
    tutti_options options;

    tutti_options_default(&options);
    options.stream = stream;
    return tutti_allreduce_async(s->t, name, memory, memory, 256, TUTTI_FLOAT32,
            TUTTI_SUM, &options, request);
}

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

    (void)SUITE_EXPECT(
            s, sum(s, "warm-up", memory, s->rig.stream, &request) == TUTTI_OK);
    (void)SUITE_EXPECT(s, tutti_wait(s->t, &request, TUTTI_FOREVER) == TUTTI_OK);
}

static void hold_stream(struct suite *s, atomic_bool *released)
{
    atomic_store(released, false);
    device_must(&s->rig, s->rig.cuda.launch_host_func(s->rig.stream, hold, released),
            "hold a stream");
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

    device_must(&s->rig, s->rig.cuda.stream_create(&captured, CU_STREAM_NONBLOCKING, 0),
            "make a stream");
    warm_up(s, memory);
    if (!s->staged) { /* else it is not issued before it is done */
        hold_stream(s, &released);
    }
    (void)SUITE_EXPECT(s, sum(s, "before", memory, s->rig.stream, &before) == TUTTI_OK);
    device_must(&s->rig, calls->begin(captured, CAPTURE_GLOBAL), "begin a capture");
    (void)SUITE_EXPECT(
            s, sum(s, "captured", memory, captured, &request) == TUTTI_ERR_INVALID);
    (void)SUITE_EXPECT(
            s, strstr(tutti_last_error(), "captured in a CUDA graph") != NULL);
    (void)SUITE_EXPECT(s,
            s->staged ||
                    tutti_wait_stream(s->t, &before, captured, SECONDS_60) ==
                            TUTTI_ERR_INVALID);
    (void)SUITE_EXPECT(s, calls->end(captured, &graph) == CU_SUCCESS && graph != NULL);
    atomic_store(&released, true);
    (void)SUITE_EXPECT(s, tutti_wait(s->t, &before, TUTTI_FOREVER) == TUTTI_OK);
    (void)SUITE_EXPECT(s, sum(s, "after", memory, captured, &request) == TUTTI_OK);
    (void)SUITE_EXPECT(
            s, tutti_wait_stream(s->t, &request, captured, SECONDS_60) == TUTTI_OK);
    device_must(&s->rig, s->rig.cuda.stream_synchronize(captured), "wait");
    if (graph != NULL) {
        device_must(&s->rig, calls->destroy(graph), "destroy a graph");
    }
    device_must(&s->rig, s->rig.cuda.stream_destroy(captured), "end a stream");
}

/* One launch: other gradients, one place for all. */
static void launch_once(struct suite *s, const struct graph_calls *calls, void *exec,
        void *memory, int number)
{
    float values[256];
    const float expected = (float)(number * s->size + s->size * (s->size + 1) / 2);

    for (int i = 0; i < 256; i++) {
        values[i] = (float)(s->rank + 1 + number);
    }
    device_upload(&s->rig, memory, values, sizeof values);
    device_must(&s->rig, calls->launch(exec, s->rig.stream), "launch a graph");
    device_download(&s->rig, values, memory, sizeof values);
    for (int i = 0; i < 256; i++) {
        (void)SUITE_EXPECT(s, memcmp(&values[i], &expected, sizeof expected) == 0);
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
    (void)SUITE_EXPECT(s, sum(s, "captured", memory, stream, &request) == TUTTI_OK);
    (void)SUITE_EXPECT(
            s, tutti_wait_stream(s->t, &request, stream, SECONDS_60) == TUTTI_OK);
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
    void *memory = device_memory(&s->rig, 1024);
    struct graph_calls calls;

    if (SUITE_EXPECT(s, find_calls(s, &calls))) {
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
    tutti_status status = sum(s, "held", memory, s->rig.stream, request);

    if (status == TUTTI_OK && (!s->staged || s->rank == 0)) {
        status = tutti_wait_stream(s->t, request, s->rig.stream, SECONDS_60);
    }
    (void)SUITE_EXPECT(s, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
}

/* What has failed stays until the GPU does not touch its buffers any more. */
static void end_pending(struct suite *s, tutti_request *request)
{
    if (*request != TUTTI_REQUEST_NULL) {
        (void)SUITE_EXPECT(
                s, tutti_wait(s->t, request, SECONDS_60) == TUTTI_ERR_CONTEXT_FAILED);
    }
}

void suite_abort(struct suite *s)
{
    static atomic_bool released;
    void *memory = device_memory(&s->rig, 1024);
    tutti_request held = TUTTI_REQUEST_NULL;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status;

    if (s->size == 1) { /* there is nobody to leave alone */
        device_drop(&s->rig, memory);
        return;
    }
    warm_up(s, memory);
    /* All have ended what came before, which an abort would fail. It may fail this, too. */
    status = tutti_barrier(s->t, "before the abort", NULL);
    (void)SUITE_EXPECT(s, status == TUTTI_OK || status == TUTTI_ERR_CONTEXT_FAILED);
    if (s->rank == 0) {
        hold_stream(s, &released);
    }
    issue(s, memory, &held);
    if (s->rank == s->size - 1) {
        (void)SUITE_EXPECT(s, tutti_abort(s->t, "a rank gave up") == TUTTI_OK);
    }
    status = sum(s, "after", memory, s->rig.stream, &request);
    if (status == TUTTI_OK) {
        status = tutti_wait(s->t, &request, SECONDS_60);
    }
    (void)SUITE_EXPECT(s, status == TUTTI_ERR_CONTEXT_FAILED);
    (void)SUITE_EXPECT(s, strstr(tutti_last_error(), "a rank gave up") != NULL);
    atomic_store(&released, true);
    (void)SUITE_EXPECT(s, s->rig.cuda.stream_synchronize(s->rig.stream) == CU_SUCCESS);
    end_pending(s, &held);
    device_drop(&s->rig, memory);
    s->is_broken = true;
}
