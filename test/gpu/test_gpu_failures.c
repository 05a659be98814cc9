/*
 * What goes wrong, from end to end: all ranks end with one status and the first cause in
 * words, what can go on goes on, and tutti_finalize() works after each.
 */
#include <stdio.h>
#include <string.h>

#include "test/gpu/ends.h"
#include "test/gpusim/nccl/gpusim_nccl.h"

enum {
    COUNT = 300,
    WORDS = 2048,
    TENSORS = 3
};

/* The rank that something happens to. */
#define CULPRIT 1

/* ---------------------------------------------------------------- failed contexts */

/* What each rank was told. */
static char told[ENDS_RANKS_MAX][WORDS];

/* The sum of a fresh tensor; NULL: it may not end, or the call be refused. */
static tutti_request submit(struct ends_rank *r, const char *name, float *memory)
{
    ends_fill(r, memory, (float)(r->rank + 1), COUNT, r->stream);
    return ends_sum(r, name, memory, memory, COUNT, r->stream);
}

static void expect_words(struct ends_rank *r, const char *words)
{
    if (strstr(tutti_last_error(), words) == NULL) {
        (void)fprintf(stderr, "\"%s\" is not said\n", words);
        CHECK(false && "the error says why");
    }
}

/* Waits for what must fail the context; afterwards nothing works any more. */
static void expect_failed(
        struct ends_rank *r, tutti_request *request, const char *words)
{
    float *memory = NULL;
    const tutti_options options = ends_on(r->stream);
    tutti_request after = TUTTI_REQUEST_NULL;

    CHECK(tutti_wait(r->t, request, TUTTI_FOREVER) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(*request == TUTTI_REQUEST_NULL);
    expect_words(r, words);
    (void)snprintf(told[r->rank], WORDS, "%s", tutti_last_error());
    CHECK(tutti_allreduce_async(r->t, "after", memory, memory, 0, TUTTI_FLOAT32,
                  TUTTI_SUM, &options, &after) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(strcmp(tutti_last_error(), told[r->rank]) == 0);
}

/* Only one rank can have found it: all say the same. */
static void expect_one_cause(struct ends_rank *r)
{
    char first[64];

    ends_meet(r);
    (void)snprintf(first, sizeof first, "first cause, on rank %d: ", CULPRIT);
    CHECK(strstr(told[r->rank], first) != NULL);
    CHECK(strcmp(told[r->rank], told[0]) == 0);
}

/* NCCL tells one rank of an error by itself. */
static void run_async_error(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request request;

    ends_whole_sum(r, "before");
    ends_meet(r);
    if (r->rank == 0) {
        gpusim_nccl_fail("1:async:1:6");
    }
    ends_meet(r);
    request = submit(r, "x", memory);
    expect_failed(r, &request, "process set 0");
    expect_one_cause(r);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS); /* it may still be filled */
    ends_free(r, memory);
}

/*
 * The same with two communicators, whose aborts wait until all ranks are in theirs: none may be
 * begun only when another one has ended.
 */
static void run_aborts_meet(struct ends_rank *r)
{
    static const int ranks[] = { 0, 1, 2 };
    tutti_options options = ends_on(r->stream);
    float *memory = ends_alloc(r, COUNT);

    CHECK(tutti_process_set_create(r->t, ranks, r->size, &options.process_set) ==
            TUTTI_OK);
    CHECK(tutti_allreduce(r->t, "of the set", memory, memory, COUNT, TUTTI_FLOAT32,
                  TUTTI_SUM, &options) == TUTTI_OK);
    ends_free(r, memory);
    if (r->rank == 0) {
        gpusim_nccl_fail("*:abortmeets:0:0");
    }
    run_async_error(r);
}

/* The same when every rank has handed its work over, and there is no request to tell. */
static void run_async_error_later(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status = TUTTI_OK;

    ends_whole_sum(r, "before");
    ends_meet(r);
    if (r->rank == 0) {
        gpusim_nccl_fail("1:async:1:6");
    }
    ends_meet(r);
    for (int i = 0; status == TUTTI_OK; i++) {
        const tutti_options options = ends_on(r->stream);

        CHECK(i < 1000000);
        status = tutti_allreduce_async(r->t, "x", memory, memory, COUNT, TUTTI_FLOAT32,
                TUTTI_SUM, &options, &request);
        if (status == TUTTI_OK) {
            status = tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE);
        }
    }
    CHECK(status == TUTTI_ERR_CONTEXT_FAILED);
    expect_words(r, "process set 0");
    (void)snprintf(told[r->rank], WORDS, "%s", tutti_last_error());
    expect_one_cause(r);
    /* The stream that waits for a result goes on; for the last one it may not wait. */
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    CHECK(request == TUTTI_REQUEST_NULL ||
            tutti_wait(r->t, &request, ENDS_PATIENCE) == TUTTI_ERR_CONTEXT_FAILED);
    ends_free(r, memory);
}

/* The device of one rank is lost, which its next call finds; the others are told. */
static void expect_lost(
        struct ends_rank *r, void (*lose)(struct ends_rank *r), const char *words)
{
    const tutti_options options = ends_on(r->stream);
    float *memory = ends_alloc(r, COUNT);
    tutti_request request = TUTTI_REQUEST_NULL;

    ends_whole_sum(r, "before");
    /* The others have submitted by then: a failed context refuses what comes later. */
    if (r->rank != CULPRIT) {
        request = submit(r, "x", memory);
    }
    ends_meet(r);
    if (r->rank == CULPRIT) {
        lose(r);
        CHECK(tutti_allreduce_async(r->t, "x", memory, memory, COUNT, TUTTI_FLOAT32,
                      TUTTI_SUM, &options, &request) == TUTTI_ERR_CONTEXT_FAILED);
        expect_words(r, words);
        (void)snprintf(told[r->rank], WORDS, "%s", tutti_last_error());
    } else {
        expect_failed(r, &request, words);
        CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
        ends_free(r, memory);
    }
    expect_one_cause(r);
}

/* A kernel of the program's has written where nothing is. */
static void fail_kernel(struct ends_rank *r)
{
    gpusim_fail_device(r->device, CUDA_ILLEGAL_ADDRESS);
}

static void run_failed_kernel(struct ends_rank *r)
{
    expect_lost(r, fail_kernel, "an illegal memory access was encountered");
    CHECK(strstr(told[r->rank], "rank 1 has lost GPU 1 (") != NULL);
}

static void reset(struct ends_rank *r)
{
    gpusim_reset(r->device);
}

static void run_reset(struct ends_rank *r)
{
    expect_lost(r, reset, "was it reset (cudaDeviceReset()) before tutti_finalize()?");
}

/* Work of the program's before a tensor does not end on one rank. */
static void run_timeout(struct ends_rank *r)
{
    static const char words[] = "has not ended the allreduce of 1 tensors";
    float *memory = ends_alloc(r, COUNT);
    tutti_request request;
    tutti_status status;

    ends_whole_sum(r, "before");
    if (r->rank == CULPRIT) {
        gpusim_hold(r->stream);
    }
    request = submit(r, "x", memory);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, TUTTI_FOREVER) == TUTTI_OK);
    ends_meet(r); /* it is on all GPUs */
    if (r->rank == CULPRIT) {
        ends_pass_time(r, words);
        gpusim_release(r->stream);
    }
    status = tutti_barrier(r->t, "after", NULL);
    CHECK(status == TUTTI_ERR_CONTEXT_FAILED);
    expect_words(r, words);
    expect_words(r, "(gpu_timeout_s=1000)");
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_free(r, memory);
}

/* ------------------------------------------------------------------ held streams */

/* NCCL was asked to put a sum on all GPUs. */
static bool is_called(void *what)
{
    return gpusim_calls("ncclAllReduce") >= *(const long *)what;
}

/*
 * Sums of a group on all ranks. On rank 0 work of the program's holds them back, and NCCL has
 * them on its stream and does not say so: they are not issued, and its abort waits.
 */
static void submit_held(
        struct ends_rank *r, tutti_request *requests, float *const *memories, int count)
{
    long calls;

    ends_whole_sum(r, "before");
    ends_meet(r);
    calls = gpusim_calls("ncclAllReduce") + r->size;
    if (r->rank == 0) {
        gpusim_nccl_fail("0:late:1:0");
        gpusim_hold(r->stream);
    }
    ends_meet(r);
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    for (int i = 0; i < count; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "%d", i);
        requests[i] = submit(r, name, memories[i]);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
    ends_await(is_called, &calls);
}

/* A stream is not to wait any more, and the request still says when the memory is free. */
static void expect_kept(struct ends_rank *r, tutti_request *request)
{
    CHECK(tutti_wait_stream(r->t, request, r->stream, ENDS_PATIENCE) ==
            TUTTI_ERR_CONTEXT_FAILED);
    expect_words(r, "rank 1 gave up");
    CHECK(*request != TUTTI_REQUEST_NULL);
}

static void give_up(struct ends_rank *r)
{
    ends_meet(r);
    if (r->rank == CULPRIT) {
        CHECK(tutti_abort(r->t, "rank 1 gave up") == TUTTI_OK);
    }
}

/* A wait for a stream does not wait for what is on it; one of the host does. */
static void run_held(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request request;

    submit_held(r, &request, &memory, 1);
    give_up(r);
    if (r->rank == 0) {
        expect_kept(r, &request);
        CHECK(tutti_test(r->t, &request) == TUTTI_AGAIN);
        gpusim_release(r->stream);
    }
    expect_failed(r, &request, "rank 1 gave up");
    expect_one_cause(r);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_free(r, memory);
}

/** A thread that waits beside its rank's own. */
struct beside {
    struct ends_rank *r;
    tutti_request request;
    void (*wait)(struct ends_rank *r, tutti_request *request);
    pthread_t thread;
};

static void *run_beside(void *arg)
{
    struct beside *beside = arg;

    beside->wait(beside->r, &beside->request);
    return NULL;
}

static void wait_on_host(struct ends_rank *r, tutti_request *request)
{
    CHECK(tutti_wait(r->t, request, ENDS_PATIENCE) == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(*request == TUTTI_REQUEST_NULL);
}

/* The same of three threads, one of which waits for its memory all the time. */
static void run_held_threads(struct ends_rank *r)
{
    struct beside others[] = { { .r = r, .wait = wait_on_host },
        { .r = r, .wait = expect_kept } };
    tutti_request requests[TENSORS];
    float *memories[TENSORS];

    for (int i = 0; i < TENSORS; i++) {
        memories[i] = ends_alloc(r, COUNT);
    }
    submit_held(r, requests, memories, TENSORS);
    for (int i = 0; i < 2 && r->rank == 0; i++) {
        others[i].request = requests[i];
        CHECK(pthread_create(&others[i].thread, NULL, run_beside, &others[i]) == 0);
    }
    give_up(r);
    if (r->rank == 0) {
        expect_kept(r, &requests[2]);
        CHECK(pthread_join(others[1].thread, NULL) == 0);
        gpusim_release(r->stream);
        CHECK(pthread_join(others[0].thread, NULL) == 0);
        wait_on_host(r, &others[1].request);
    } else {
        wait_on_host(r, &requests[0]);
        wait_on_host(r, &requests[1]);
    }
    expect_failed(r, &requests[2], "rank 1 gave up");
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    for (int i = 0; i < TENSORS; i++) {
        ends_free(r, memories[i]);
    }
}

/* Nobody waits for the memory but tutti_finalize(), whose it is. */
static void run_held_left(struct ends_rank *r)
{
    tutti_request request;
    void *memory = NULL;

    CHECK(tutti_alloc(r->t, COUNT * sizeof(float), TUTTI_DEVICE, &memory) == TUTTI_OK);
    submit_held(r, &request, (float *[]){ memory }, 1);
    give_up(r);
    if (r->rank == 0) {
        expect_kept(r, &request);
        gpusim_release(r->stream);
    }
}

/* A communicator that is never ready. */
static void run_no_meeting(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request request;

    if (r->rank == 0) {
        gpusim_nccl_fail("*:init:0:1");
    }
    ends_meet(r);
    request = submit(r, "x", memory);
    if (r->rank == CULPRIT) {
        ends_pass_time(r, "have not met in NCCL");
    }
    expect_failed(r, &request, "have not met in NCCL");
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_free(r, memory);
}

/* What the parameters say of communicators. */
static void run_settings(struct ends_rank *r)
{
    const struct gpusim_nccl_live live = gpusim_nccl_live();

    ends_whole_sum(r, "x");
    CHECK(gpusim_calls("ncclGetUniqueId") == 2);
    CHECK(gpusim_calls("ncclCommInitRankScalable") == r->size);
    CHECK(live.min_ctas == 2 && live.max_ctas == 8 && live.traffic_class == 5);
}

static void run_no_network(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request request = submit(r, "x", memory);

    expect_failed(r, &request,
            "cannot make a communicator (over the network that gpu_nccl_net names)");
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_free(r, memory);
}

/* ------------------------------------------------------------------------ stalls */

/* A rank is late: the others are told who, of what, and it goes on. */
static void run_late(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request request;

    ends_whole_sum(r, "before");
    ends_meet(r);
    if (r->rank == CULPRIT) {
        ends_pass_time(r, "rank 1 has not submitted allreduce \"x\"");
    }
    request = submit(r, "x", memory);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, TUTTI_FOREVER) == TUTTI_OK);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_free(r, memory);
}

/* A rank leaves a tensor out: nothing is issued, and in the end it fails. */
static void run_left_out(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request request = TUTTI_REQUEST_NULL;

    ends_whole_sum(r, "before");
    ends_meet(r);
    if (r->rank != CULPRIT) {
        request = submit(r, "x", memory);
        CHECK(tutti_wait_stream(r->t, &request, r->stream, 1000) == TUTTI_ERR_TIMEOUT);
    } else {
        ends_pass_time(r, "rank 1 has not submitted allreduce \"x\"");
        request = submit(r, "y", memory);
        ends_pass(
                86); /* x waits for more than stall_fail_s with the time before, y does not */
    }
    expect_failed(r, &request, "allreduce \"x\" was not submitted by all ranks within");
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_free(r, memory);
}

/* ----------------------------------------------------------------------- refusals */

static void expect_refused(
        struct ends_rank *r, float *memory, void *stream, const char *words)
{
    const tutti_options options = ends_on(stream);
    tutti_request request = TUTTI_REQUEST_NULL;

    CHECK(tutti_allreduce_async(r->t, "x", memory, memory, COUNT, TUTTI_FLOAT32,
                  TUTTI_SUM, &options, &request) == TUTTI_ERR_INVALID);
    CHECK(request == TUTTI_REQUEST_NULL);
    expect_words(r, words);
}

/* A stream that cannot wait is refused, and the request stays. */
static void expect_wait_refused(
        struct ends_rank *r, float *memory, void *stream, const char *words)
{
    tutti_request request;

    gpusim_hold(r->stream); /* what has been carried out needs no stream */
    request = submit(r, "x", memory);
    CHECK(tutti_wait_stream(r->t, &request, stream, ENDS_PATIENCE) ==
            TUTTI_ERR_INVALID);
    expect_words(r, words);
    CHECK(request != TUTTI_REQUEST_NULL);
    gpusim_release(r->stream);
    CHECK(tutti_wait(r->t, &request, ENDS_PATIENCE) == TUTTI_OK);
}

static void run_foreign_stream(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    void *context = NULL;
    void *stream = NULL;

    CHECK(cuCtxCreate_v2(&context, 0, r->device) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&stream, 1) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(r->context) == CUDA_SUCCESS);
    expect_refused(r, memory, stream, "is of a context of its own (cuCtxCreate())");
    ends_whole_sum(r, "x");
    expect_wait_refused(
            r, memory, stream, "is of a context of its own (cuCtxCreate())");
    CHECK(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
    CHECK(cuCtxDestroy_v2(context) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(r->context) == CUDA_SUCCESS);
    ends_free(r, memory);
}

/* Streams and memory of the neighbour's GPU. */
static void run_other_gpu(struct ends_rank *r)
{
    static void *streams[ENDS_RANKS_MAX];
    static float *memories[ENDS_RANKS_MAX];
    float *memory = ends_alloc(r, COUNT);
    const int next = (r->rank + 1) % r->size;
    char words[64];

    streams[r->rank] = r->stream;
    memories[r->rank] = memory;
    ends_meet(r);
    (void)snprintf(words, sizeof words, "is of GPU %d, but", next);
    expect_refused(r, memory, streams[next], words);
    (void)snprintf(words, sizeof words, "is memory of GPU %d, but", next);
    expect_refused(r, memories[next], r->stream, words);
    ends_whole_sum(r, "x");
    ends_meet(r);
    ends_free(r, memory);
}

/* Memory that is too short for what is to come into it is refused, wherever it is short. */
static void run_short_memory(struct ends_rank *r)
{
    static const char words[] = "the device memory there ends before";
    const tutti_options options = ends_on(r->stream);
    float *memory = ends_alloc(r, COUNT);
    tutti_request request = TUTTI_REQUEST_NULL;
    int64_t rows_of[ENDS_RANKS_MAX];

    CHECK(tutti_allreduce_async(r->t, "x", memory, memory, COUNT + 1, TUTTI_FLOAT32,
                  TUTTI_SUM, &options, &request) == TUTTI_ERR_INVALID);
    expect_words(r, words);
    for (int i = 0; i < r->size; i++) {
        rows_of[i] = i == 0 ? 1 : COUNT;
    }
    CHECK(tutti_allgather_async(r->t, "x", memory, memory, rows_of[r->rank], 1, rows_of,
                  TUTTI_FLOAT32, &options, &request) == TUTTI_ERR_INVALID);
    expect_words(r, words);
    ends_whole_sum(r, "x");
    ends_free(r, memory);
}

/* The capture is left as it was, also by the first operation of all. */
static void run_capture(struct ends_rank *r)
{
    float *memory = ends_alloc(r, COUNT);
    tutti_request first;
    static const char words[] = "is being captured in a CUDA graph";
    void *captured = NULL;
    void *graph = NULL;
    size_t nodes = 0;

    CHECK(cuStreamCreate(&captured, 1) == CUDA_SUCCESS);
    ends_meet(r); /* nobody of the process may allocate during it */
    CHECK(cuStreamBeginCapture_v2(captured, 0) == CUDA_SUCCESS);
    first = submit(r, "first", memory);
    CHECK(tutti_wait_stream(r->t, &first, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    ends_fill(r, memory, 1, COUNT, captured);
    expect_refused(r, memory, captured, words);
    ends_fill(r, memory, 2, COUNT, captured);
    expect_wait_refused(r, memory, captured, words);
    CHECK(cuStreamEndCapture(captured, &graph) == CUDA_SUCCESS);
    CHECK(cuGraphGetNodes(graph, NULL, &nodes) == CUDA_SUCCESS && nodes == 2);
    ends_meet(r);
    CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy_v2(captured) == CUDA_SUCCESS);
    ends_whole_sum(r, "x");
    ends_free(r, memory);
}

/* What cannot be had is said; what was had before goes on. */
static void run_no_memory(struct ends_rank *r)
{
    void *memory = NULL;

    ends_whole_sum(r, "x");
    gpusim_limit_memory(r->device, 0);
    CHECK(tutti_alloc(r->t, (size_t)1 << 30, TUTTI_DEVICE, &memory) ==
            TUTTI_ERR_NO_MEMORY);
    expect_words(r, "no device memory for 1073741824 bytes on rank ");
    CHECK(memory == NULL);
    gpusim_limit_memory(r->device, SIZE_MAX);
    ends_whole_sum(r, "x");
}

/* One rank has no memory left to pack tensors in, and the others do. */
static void run_no_memory_to_pack(struct ends_rank *r)
{
    float *memories[TENSORS];
    tutti_request requests[TENSORS];

    ends_whole_sum(r, "before");
    for (int i = 0; i < TENSORS; i++) {
        memories[i] = ends_alloc(r, COUNT);
        ends_fill(r, memories[i], 1, COUNT, r->stream);
    }
    if (r->rank == CULPRIT) {
        gpusim_limit_memory(r->device, 0);
    }
    ends_meet(r);
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    for (int i = 0; i < TENSORS; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "%d", i);
        requests[i] = ends_sum(r, name, memories[i], memories[i], COUNT, r->stream);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
    for (int i = 0; i < TENSORS; i++) {
        expect_failed(r, &requests[i], "out of memory");
    }
    expect_one_cause(r);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    for (int i = 0; i < TENSORS; i++) {
        ends_free(r, memories[i]);
    }
}

/* -------------------------------------------------------------- what is not there */

/* Host memory works, and device memory is refused. */
static void expect_host(struct ends_rank *r)
{
    float value = (float)(r->rank + 1);
    void *memory = NULL;

    CHECK(tutti_allreduce(r->t, "host", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                  NULL) == TUTTI_OK);
    CHECK(value == ends_total(r));
    CHECK(tutti_alloc(r->t, 4, TUTTI_DEVICE, &memory) == TUTTI_ERR_UNSUPPORTED);
    expect_words(r, "has no GPU, so there is no device memory");
}

/* The line of tutti_gpu_describe(), which is all that it says. */
static void expect_line(
        struct ends_rank *r, const char *parameter, const char *value, const char *line)
{
    tutti_config *config = NULL;
    char text[4096] = "";

    CHECK(tutti_config_create(&config) == TUTTI_OK);
    CHECK(tutti_config_set(config, parameter, value) == TUTTI_OK);
    CHECK(tutti_gpu_describe(config, text, sizeof text) == TUTTI_OK);
    if (strcmp(text, line) != 0) {
        (void)fprintf(stderr, "\"%s\" is said, not \"%s\"\n", text, line);
        CHECK(false && "the sentence of docs/gpu.md");
    }
    tutti_config_destroy(config);
}

static void run_no_driver(struct ends_rank *r)
{
    expect_host(r);
    expect_line(r, "cuda_library", "no-such.so",
            "no GPU: there is no CUDA driver: no-such.so: cannot open shared object "
            "file: No such file or directory\n");
}

static void run_off(struct ends_rank *r)
{
    expect_host(r);
    expect_line(r, "gpu", "off", "no GPU: GPUs are switched off (gpu=off)\n");
}

/* What lies on the device goes through host memory, and the log says why, once. */
static void expect_staged(struct ends_rank *r, const char *words)
{
    tutti_stats stats = { .size = sizeof stats };

    ends_whole_sum(r, "x");
    CHECK(tutti_stats_get(r->t, &stats) == TUTTI_OK);
    CHECK(stats.device_batches == 1 && stats.device_staged == 1);
    CHECK(ends_was_logged(r->job,
            "tensors in device memory are copied to host memory, reduced there and "
            "copied back: "));
    CHECK(ends_was_logged(r->job, words));
}

static void run_no_nccl(struct ends_rank *r)
{
    expect_staged(r, "rank 0 has no NCCL: ");
    CHECK(ends_was_logged(r->job, "no-such.so: cannot open shared object file"));
}

static void run_one_gpu(struct ends_rank *r)
{
    expect_staged(r, "rank 0 and rank 1 share the GPU");
}

static void run_on_host(struct ends_rank *r)
{
    expect_staged(r, "the parameter backend asks for it");
}

static void run_old_nccl(struct ends_rank *r)
{
    expect_staged(r, "rank 0 has no NCCL: NCCL 2.11.4 in ");
    CHECK(ends_was_logged(r->job, " is older than 2.12"));
}

/* -------------------------------------------------------------------------- main */

#define FAILED TUTTI_ERR_CONTEXT_FAILED

const struct ends_case cases_failures[] = {
    { "async_error", run_async_error, "", FAILED, false },
    { "async_error_later", run_async_error_later, "", FAILED, false },
    { "aborts_meet", run_aborts_meet, "", FAILED, false },
    { "failed_kernel", run_failed_kernel, "", FAILED, true },
    { "reset", run_reset, "", FAILED, true },
    { "timeout", run_timeout, "gpu_timeout_s=1000", FAILED, false },
    { "held", run_held, "", FAILED, false },
    { "held_threads", run_held_threads, "", FAILED, false },
    { "held_left", run_held_left, "", FAILED, false },
    { "no_meeting", run_no_meeting, "gpu_connect=use gpu_timeout_s=1000", FAILED,
            false },
    { "settings", run_settings,
            "gpu_nccl_min_ctas=2 gpu_nccl_max_ctas=8 gpu_nccl_traffic_class=5 "
            "gpu_nccl_net=Socket gpu_nccl_ranks_per_id=2",
            TUTTI_OK, false },
    { "no_network", run_no_network, "gpu_connect=use gpu_nccl_net=none", FAILED,
            false },
    { "late", run_late, "stall_warning_s=1000", TUTTI_OK, false },
    { "left_out", run_left_out, "stall_warning_s=1000 stall_fail_s=86400", FAILED,
            false },
    { "foreign_stream", run_foreign_stream, "", TUTTI_OK, false },
    { "other_gpu", run_other_gpu, "", TUTTI_OK, false },
    { "short_memory", run_short_memory, "", TUTTI_OK, false },
    { "capture", run_capture, "", TUTTI_OK, false },
    { "no_memory", run_no_memory, "", TUTTI_OK, false },
    { "no_memory_to_pack", run_no_memory_to_pack, "", FAILED, false },
    { "no_driver", run_no_driver, "cuda_library=no-such.so", TUTTI_OK, false },
    { "off", run_off, "gpu=off", TUTTI_OK, false },
    { "no_nccl", run_no_nccl, "nccl_library=no-such.so", TUTTI_OK, false },
    { "one_gpu", run_one_gpu, "gpu=0", TUTTI_OK, false },
    { "on_host", run_on_host, "backend=shm", TUTTI_OK, false },
    { "old_nccl", run_old_nccl, "", TUTTI_OK, false },
    { .name = NULL },
};
