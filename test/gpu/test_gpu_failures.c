/*
 * What goes wrong, from end to end: all ranks end with one status and the first cause in
 * words, what can go on goes on, and tutti_finalize() works after each.
 */
#include <stdio.h>
#include <string.h>

#include "test/gpu/ends.h"

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

/* Those of several tensors, in one batch, which packs them. */
static void submit_all(
        struct ends_rank *r, float *const *memories, tutti_request *requests, int count)
{
    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    for (int i = 0; i < count; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "%d", i);
        requests[i] = submit(r, name, memories[i]);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
}

static void alloc_all(struct ends_rank *r, float *memories[TENSORS])
{
    for (int i = 0; i < TENSORS; i++) {
        memories[i] = ends_alloc(r, COUNT);
    }
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

/* What NCCL does on some ranks, and what all are told then. */
static const struct trouble {
    const char *name; /* of the case */
    const char *fault; /* of gpusim_fail(); NULL: none */
    long nth;
    int error;
    const char *words;
    bool comes_first; /* before the first sum */
    bool is_one_cause; /* only one rank can have found it */
    bool takes_time;
} troubles[] = {
    { "aborts_meet", "async of rank 1", 1, 6, "process set 0", false, true, false },
    { "refused", "ncclAllReduce", 0, 2,
            "NCCL cannot put a batch on the GPU for process set 0 on GPU ", false,
            false, false },
    /* A rank whose buffer cannot be registered cannot go on: the others would be. */
    { "unregistered", "ncclMemAlloc", 1, 1, "gpu_register=false does without", true,
            false, false },
    { "no_network", NULL, 0, 0,
            "cannot make a communicator (over the network that gpu_nccl_net names)",
            true, false, false },
    /* A communicator that is never ready. */
    { "no_meeting", "init", 0, 1, "have not met in NCCL", true, false, true },
    /* One rank has no memory left to pack tensors in, and the others do. */
    { "no_memory", NULL, 0, 0, "out of memory", false, true, false },
};

/* What cannot be had is said. */
static void take_memory(struct ends_rank *r)
{
    void *memory = NULL;

    gpusim_limit_memory(r->device, 0);
    CHECK(tutti_alloc(r->t, (size_t)1 << 30, TUTTI_DEVICE, &memory) ==
            TUTTI_ERR_NO_MEMORY);
    expect_words(r, "no device memory for 1073741824 bytes on rank ");
    CHECK(memory == NULL);
}

static void run_trouble(struct ends_rank *r)
{
    const struct trouble *trouble = troubles;
    float *memories[TENSORS];
    tutti_request requests[TENSORS];

    while (strcmp(trouble->name, r->job->what->name) != 0) {
        trouble++;
    }
    alloc_all(r, memories);
    if (!trouble->comes_first) {
        ends_whole_sum(r, "before");
    }
    ends_meet(r);
    if (r->rank == 0 && trouble->fault != NULL) {
        gpusim_fail(trouble->fault, trouble->nth, trouble->error);
    }
    if (r->rank == CULPRIT && strcmp(trouble->name, "no_memory") == 0) {
        take_memory(r);
    }
    ends_meet(r);
    submit_all(r, memories, requests, TENSORS);
    if (trouble->takes_time && r->rank == CULPRIT) {
        ends_pass_time(r, trouble->words);
    }
    for (int i = 0; i < TENSORS; i++) {
        expect_failed(r, &requests[i], trouble->words);
    }
    if (trouble->is_one_cause) {
        expect_one_cause(r);
    }
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
}

/* In a process set of all, with a communicator of its own. */
static tutti_status sum_of_set(struct ends_rank *r)
{
    static const int ranks[] = { 2, 1, 0 };
    tutti_process_set set;
    tutti_status status = tutti_process_set_create(r->t, ranks, r->size, &set);

    return status == TUTTI_OK ? ends_sum_in(r, "of the set", set, ends_total(r))
                              : status;
}

/*
 * An error with two communicators, whose aborts wait until all ranks are in theirs: none may be
 * begun only when another one has ended.
 */
static void run_aborts_meet(struct ends_rank *r)
{
    CHECK(sum_of_set(r) == TUTTI_OK);
    if (r->rank == 0) {
        gpusim_fail("abortmeets", 0, 1);
    }
    run_trouble(r);
}

/* A set's communicator cannot be made. */
static void run_no_split(struct ends_rank *r)
{
    if (r->rank == 0) {
        gpusim_fail("ncclCommSplit", 0, 2);
    }
    ends_meet(r);
    CHECK(sum_of_set(r) == TUTTI_ERR_CONTEXT_FAILED);
    expect_words(r, "NCCL cannot make a communicator for process set 1 on GPU ");
}

/* The device of one rank is lost, which its next call finds; the others are told. */
static void run_lost(struct ends_rank *r)
{
    const bool is_reset = strcmp(r->job->what->name, "reset") == 0;
    const char *words = is_reset
            ? "was it reset (cudaDeviceReset()) before tutti_finalize()?"
            : "an illegal memory access was encountered";
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
        if (is_reset) {
            gpusim_reset(r->device);
        } else {
            gpusim_fail_device(r->device, CUDA_ILLEGAL_ADDRESS);
        }
        CHECK(tutti_allreduce_async(r->t, "x", memory, memory, COUNT, TUTTI_FLOAT32,
                      TUTTI_SUM, &options, &request) == TUTTI_ERR_CONTEXT_FAILED);
        expect_words(r, words);
        expect_words(r, "rank 1 has lost GPU 1 (");
        (void)snprintf(told[r->rank], WORDS, "%s", tutti_last_error());
    } else {
        expect_failed(r, &request, words);
        CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    }
    expect_one_cause(r);
}

/* Work of the program's before a tensor does not end on one rank. */
static void run_timeout(struct ends_rank *r)
{
    static const char words[] = "has not ended the allreduce of 1 tensors";
    float *memory = ends_alloc(r, COUNT);
    tutti_request request;

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
    CHECK(tutti_barrier(r->t, "after", NULL) == TUTTI_ERR_CONTEXT_FAILED);
    expect_words(r, words);
    expect_words(r, "(gpu_timeout_s=1000)");
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
}

/* ------------------------------------------------------------------ held streams */

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
        gpusim_fail("late of rank 0", 1, 1);
        gpusim_hold(r->stream);
    }
    ends_meet(r);
    submit_all(r, memories, requests, count);
    while (gpusim_calls("ncclAllReduce") <
            calls) { /* NCCL has been asked on all GPUs */
        ends_nap();
    }
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

/*
 * A wait for a stream does not wait for what is on it; one of the host does. Three threads, one
 * of which waits for its memory all the time.
 */
static void run_held_threads(struct ends_rank *r)
{
    struct beside others[] = { { .r = r, .wait = wait_on_host },
        { .r = r, .wait = expect_kept } };
    tutti_request requests[TENSORS];
    float *memories[TENSORS];

    alloc_all(r, memories);
    submit_held(r, requests, memories, TENSORS);
    for (int i = 0; i < 2 && r->rank == 0; i++) {
        others[i].request = requests[i];
        CHECK(pthread_create(&others[i].thread, NULL, run_beside, &others[i]) == 0);
    }
    give_up(r);
    if (r->rank == 0) {
        expect_kept(r, &requests[2]);
        CHECK(tutti_test(r->t, &requests[2]) == TUTTI_AGAIN);
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

/* What the parameters say of communicators. */
static void run_settings(struct ends_rank *r)
{
    const struct gpusim_nccl_live live = gpusim_nccl_live();

    ends_whole_sum(r, "x");
    CHECK(gpusim_calls("ncclGetUniqueId") == 2);
    CHECK(gpusim_calls("ncclCommInitRankScalable") == r->size);
    CHECK(live.min_ctas == 2 && live.max_ctas == 8 && live.traffic_class == 5);
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

/* What lies on the device goes through host memory, and the log says why, once. */
static void run_staged(struct ends_rank *r)
{
    static const char *const why[][2] = { { "no_nccl", "rank 0 has no NCCL: " },
        { "no_nccl", "no-such.so: cannot open shared object file" },
        { "one_gpu", "rank 0 and rank 1 share the GPU" },
        { "on_host", "the parameter backend asks for it" } };

    ends_whole_sum(r, "x");
    CHECK(ends_stats(r).device_batches == 1 && ends_stats(r).device_staged == 1);
    CHECK(gpusim_calls("pageable copy") == 0);
    CHECK(ends_was_logged(r->job,
            "tensors in device memory are copied to host memory, reduced there and "
            "copied back: "));
    for (size_t i = 0; i < sizeof why / sizeof *why; i++) {
        CHECK(strcmp(why[i][0], r->job->what->name) != 0 ||
                ends_was_logged(r->job, why[i][1]));
    }
}

/* -------------------------------------------------------------------------- main */

#define FAILED TUTTI_ERR_CONTEXT_FAILED

const struct ends_case cases_failures[] = {
    { "aborts_meet", run_aborts_meet, "", FAILED, false },
    { "failed_kernel", run_lost, "", FAILED, true },
    { "reset", run_lost, "", FAILED, true },
    { "timeout", run_timeout, "gpu_timeout_s=1000", FAILED, false },
    { "held_threads", run_held_threads, "", FAILED, false },
    { "held_left", run_held_left, "", FAILED, false },
    { "refused", run_trouble, "", FAILED, false },
    { "no_split", run_no_split, "", FAILED, false },
    { "unregistered", run_trouble, "gpu_register=true", FAILED, false },
    { "no_meeting", run_trouble, "gpu_connect=use gpu_timeout_s=1000", FAILED, false },
    { "settings", run_settings,
            "gpu_nccl_min_ctas=2 gpu_nccl_max_ctas=8 gpu_nccl_traffic_class=5 "
            "gpu_nccl_net=Socket gpu_nccl_ranks_per_id=2",
            TUTTI_OK, false },
    { "no_network", run_trouble, "gpu_connect=use gpu_nccl_net=none", FAILED, false },
    { "no_memory", run_trouble, "", FAILED, false },
    { "no_driver", expect_host, "cuda_library=no-such.so", TUTTI_OK, false },
    { "off", expect_host, "gpu=off", TUTTI_OK, false },
    { "no_nccl", run_staged, "nccl_library=no-such.so", TUTTI_OK, false },
    { "one_gpu", run_staged, "gpu=0", TUTTI_OK, false },
    { "on_host", run_staged, "backend=shm", TUTTI_OK, false },
    { .name = NULL },
};
