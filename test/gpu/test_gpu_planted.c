/*
 * Bugs on purpose (lib/base/faults.h), each of which must make a trainer's run fail, over the
 * simulated GPU and under every seed of its delays.
 *
 *     test_gpu_planted BUG                  runs a trainer without and with the bug, and judges
 *     test_gpu_planted BUG WHEN PLANTED     a run: WHEN the bug comes, `first` or `planned`
 *                                           (when the step is in a plan); PLANTED, 0 or 1
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "base/clock.h"
#include "base/faults.h"
#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"
#include "test/gpusim/nccl/gpusim_nccl.h"

enum {
    RANKS = 2,
    TENSORS = 3, /* two gradients, and what rank 0 tells the others */
    COUNT = 700,
    STEPS = 3, /* with the bug, or the same without */
    PLANNED_WITHIN = 400, /* steps until one is in a plan, at most */
    DEADLINE_S = 200,
    OUTPUT_MAX = 1 << 16
};

#define ASK_NS INT64_C(1000000)
#define TELL_NS INT64_C(2000000000)

static const char unchecked[] = "unchecked_error";

/** A bug, and how a run must fail with it: any of these is said. */
static const struct bug {
    const char *name; /* of tutti_fault_set() */
    const char *says[2]; /* NULL: no more */
} bugs[] = {
    { "removed_event_wait", { "RACE: " } },
    { "skipped_collective", { "MISMATCH in communicator", "a result is wrong" } },
    { "unchecked_error", { "the error was not told" } },
    { "wait_stream_before_issue", { "RACE: ", "a result is wrong" } },
};

/* ----------------------------------------------------------------- the trainer */

/** What its ranks, which are threads, share. */
struct job {
    tutti *contexts[RANKS];
    pthread_barrier_t barrier;
    _Atomic int asked; /* the step in which rank 0 has waited in vain */
    _Atomic bool is_planned; /* the last step of rank 0 was */
};

struct rank {
    struct job *job;
    tutti *t;
    int index;
    void *stream;
    float *tensors[TENSORS]; /* of the device */
    float *results[TENSORS]; /* pinned */
    pthread_t thread;
};

_Noreturn static void give_up(const char *what, const char *more)
{
    (void)fprintf(stderr, "%s: %s\n", what, more);
    (void)fflush(NULL);
    _exit(1);
}

static void must(tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        give_up(what, tutti_last_error());
    }
}

static void must_cuda(int error, const char *what)
{
    if (error != 0) {
        give_up(what, "CUDA error");
    }
}

static void open_rank(struct rank *r)
{
    void *context = NULL;

    must_cuda(cuDevicePrimaryCtxRetain(&context, r->index), "retain");
    must_cuda(cuCtxSetCurrent(context), "set current");
    must_cuda(cuStreamCreate(&r->stream, 1), "create a stream"); /* non-blocking */
    for (int i = 0; i < TENSORS; i++) {
        void *memory = NULL;

        must(tutti_alloc(r->t, COUNT * sizeof(float), TUTTI_DEVICE, &memory), "alloc");
        r->tensors[i] = memory;
        must_cuda(cuMemAllocHost_v2(&memory, COUNT * sizeof(float)), "pin");
        r->results[i] = memory;
    }
}

static void close_rank(const struct rank *r)
{
    for (int i = 0; i < TENSORS; i++) {
        must_cuda(cuMemFreeHost(r->results[i]), "unpin");
    }
    must_cuda(cuStreamDestroy_v2(r->stream), "destroy the stream");
    must_cuda(cuDevicePrimaryCtxRelease_v2(r->index), "release");
}

/* Whole numbers, other ones for each rank, step, tensor and element. */
static float value_of(int rank, int step, int tensor, int element)
{
    return (float)((rank + 1) * (1 + step % 50 + 100 * tensor + element));
}

/* What a kernel of the trainer would write. */
static void fill(const struct rank *r, int step)
{
    float values[COUNT];

    for (int i = 0; i < TENSORS; i++) {
        for (int e = 0; e < COUNT; e++) {
            values[e] = value_of(r->index, step, i, e);
        }
        must_cuda(cuMemcpyHtoDAsync_v2((uint64_t)(uintptr_t)r->tensors[i], values,
                          sizeof values, r->stream),
                "fill");
    }
}

static void submit(const struct rank *r, tutti_request *requests)
{
    static const char *const names[] = { "weight", "bias", "statistics" };
    tutti_options options;

    tutti_options_default(&options);
    options.stream = r->stream;
    for (int i = 0; i + 1 < TENSORS; i++) {
        must(tutti_allreduce_async(r->t, names[i], r->tensors[i], r->tensors[i], COUNT,
                     TUTTI_FLOAT32, TUTTI_SUM, &options, &requests[i]),
                "allreduce");
    }
    must(tutti_broadcast_async(r->t, names[TENSORS - 1], r->tensors[TENSORS - 1], COUNT,
                 TUTTI_FLOAT32, 0, &options, &requests[TENSORS - 1]),
            "broadcast");
}

static tutti_status wait_on_stream(
        const struct rank *r, tutti_request *requests, int64_t timeout_ns)
{
    const tutti_status status =
            tutti_wait_stream_all(r->t, TENSORS, requests, r->stream, timeout_ns, NULL);

    if (status != TUTTI_ERR_TIMEOUT) {
        must(status, "wait_stream");
    }
    return status;
}

/* The copies are only put on the stream. */
static void fetch(const struct rank *r)
{
    for (int i = 0; i < TENSORS; i++) {
        must_cuda(
                cuMemcpyDtoHAsync_v2(r->results[i], (uint64_t)(uintptr_t)r->tensors[i],
                        COUNT * sizeof(float), r->stream),
                "fetch");
    }
}

/*
 * Rank 0 asks for the results while rank 1 has submitted nothing, so nothing can be issued:
 * by the rules it does not get them. Then it lets rank 1 go on.
 */
static void wait_in_turn(const struct rank *r, int step, tutti_request *requests)
{
    if (r->index == 0 && wait_on_stream(r, requests, ASK_NS) == TUTTI_OK) {
        fetch(r);
        atomic_store(&r->job->asked, step);
        return;
    }
    atomic_store(&r->job->asked, step);
    (void)wait_on_stream(r, requests, TUTTI_FOREVER);
    fetch(r);
}

static void check(const struct rank *r, int step)
{
    char text[128];

    must_cuda(cuStreamSynchronize(r->stream), "synchronize");
    for (int i = 0; i < TENSORS; i++) {
        for (int e = 0; e < COUNT; e++) {
            const float sum = i + 1 < TENSORS ? value_of(1, step, i, e) : 0;

            if (r->results[i][e] != value_of(0, step, i, e) + sum) {
                (void)snprintf(text, sizeof text,
                        "rank %d, step %d: element %d of tensor %d is %g", r->index,
                        step, e, i, (double)r->results[i][e]);
                give_up("a result is wrong", text);
            }
        }
    }
}

static uint64_t planned(tutti *t)
{
    tutti_stats stats = { .size = sizeof stats };

    must(tutti_stats_get(t, &stats), "stats");
    return stats.planned;
}

/* A step of the trainer; steps count from 1. */
static void run_step(const struct rank *r, int step)
{
    const uint64_t before = planned(r->t);
    tutti_request requests[TENSORS];

    fill(r, step);
    while (r->index != 0 && atomic_load(&r->job->asked) < step) {
        clock_sleep_ns(50000);
    }
    submit(r, requests);
    wait_in_turn(r, step, requests);
    check(r, step);
    if (r->index == 0) {
        atomic_store(&r->job->is_planned, planned(r->t) - before == TENSORS);
    }
    (void)pthread_barrier_wait(&r->job->barrier);
}

/* ---------------------------------------------------------------------- a run */

static const char *bug_name; /* of this run */
static bool bug_waits; /* it comes when the steps are planned */
static bool bug_comes;

/*
 * NCCL finds an error, and the ranks are told by whoever looks first: however long that
 * takes, unless the bug is there, with which it takes for ever.
 */
static void meet_error(const struct rank *r)
{
    tutti_request request;
    tutti_status status;

    if (r->index == 0) {
        gpusim_nccl_fail("*:async:0:6");
    }
    (void)pthread_barrier_wait(&r->job->barrier);
    must(tutti_allreduce_async(r->t, "last", r->tensors[0], r->tensors[0], COUNT,
                 TUTTI_FLOAT32, TUTTI_SUM, NULL, &request),
            "allreduce");
    status = tutti_wait(r->t, &request, bug_comes ? TELL_NS : TUTTI_FOREVER);
    if (status != TUTTI_ERR_CONTEXT_FAILED ||
            strstr(tutti_last_error(), "NCCL cannot ") == NULL) {
        give_up("the error was not told",
                status == TUTTI_OK ? "all is well" : tutti_last_error());
    }
}

static void train(struct rank *r)
{
    int step = 1;

    while (bug_waits && !atomic_load(&r->job->is_planned)) {
        if (step > PLANNED_WITHIN) {
            give_up("no step was planned", "the run proves nothing");
        }
        run_step(r, step++);
        /* Nobody writes it before all have read it. */
        (void)pthread_barrier_wait(&r->job->barrier);
    }
    if (bug_comes && r->index == 0) {
        must(tutti_fault_set(bug_name), "set the fault");
    }
    (void)pthread_barrier_wait(&r->job->barrier);
    if (strcmp(bug_name, unchecked) == 0) {
        run_step(r, step);
        meet_error(r);
        return;
    }
    for (int i = 0; i < STEPS; i++) {
        run_step(r, step++);
    }
}

static void *rank_main(void *argument)
{
    struct rank *r = argument;
    const tutti_status expected =
            strcmp(bug_name, unchecked) == 0 ? TUTTI_ERR_CONTEXT_FAILED : TUTTI_OK;

    open_rank(r);
    train(r);
    if (tutti_finalize(r->t) != expected) {
        give_up("finalize", tutti_last_error());
    }
    close_rank(r);
    return NULL;
}

static void ignore_line(void *user, tutti_log_level level, int rank, const char *line)
{
    (void)user;
    (void)level;
    (void)rank;
    (void)line;
}

static void start(struct job *job)
{
    tutti_config *config = NULL;

    must(tutti_config_create(&config), "config");
    must(tutti_config_set_log(config, ignore_line, NULL), "log");
    must(tutti_config_set(config, "cuda_library", GPUSIM_CUDA), "cuda_library");
    must(tutti_config_set(config, "nccl_library", GPUSIM_NCCL), "nccl_library");
    must(tutti_config_set(config, "gpu_kernels", "/proc/self/exe"), "gpu_kernels");
    must(tutti_init_local(RANKS, job->contexts, config), "init");
    tutti_config_destroy(config);
}

static int run(const char *name, const char *when, const char *comes)
{
    static struct job job;
    struct rank ranks[RANKS];

    bug_name = name;
    bug_waits = strcmp(when, "planned") == 0;
    bug_comes = strcmp(comes, "1") == 0;
    (void)alarm(DEADLINE_S);
    (void)pthread_barrier_init(&job.barrier, NULL, RANKS);
    start(&job);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){ .job = &job, .t = job.contexts[i], .index = i };
        if (pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) != 0) {
            give_up("no thread", "");
        }
    }
    for (int i = 0; i < RANKS; i++) {
        (void)pthread_join(ranks[i].thread, NULL);
    }
    return 0; /* 97, if the simulator has found anything */
}

/* ------------------------------------------------------------------ the judge */

/** A run of this program. */
struct child {
    const char *when;
    int seed;
    bool planted;
    pid_t pid;
    int output; /* the end of a pipe to read its words from */
};

static void begin(struct child *child, const char *program, const char *name)
{
    char seed[16];
    int ends[2];

    if (pipe(ends) != 0) {
        give_up("no pipe", name);
    }
    child->pid = fork();
    if (child->pid == 0) {
        (void)snprintf(seed, sizeof seed, "%d", child->seed);
        (void)setenv("GPUSIM_SEED", seed, 1);
        (void)setenv("GPUSIM_DELAY_US", "200", 1);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execl("/proc/self/exe", program, name, child->when,
                child->planted ? "1" : "0", (char *)NULL);
        _exit(126);
    }
    (void)close(ends[1]);
    child->output = ends[0];
}

static bool says(const struct bug *bug, const char *text)
{
    for (size_t i = 0; i < 2 && bug->says[i] != NULL; i++) {
        if (strstr(text, bug->says[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* True when the run has ended as it must. */
static bool end(const struct child *child, const struct bug *bug)
{
    static char text[OUTPUT_MAX];
    size_t length = 0;
    ssize_t got = 1;
    int status = 0;
    bool right;

    while (got > 0 && length < sizeof text - 1) {
        got = read(child->output, text + length, sizeof text - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    text[length] = '\0';
    (void)close(child->output);
    (void)waitpid(child->pid, &status, 0);
    if (child->planted) {
        right = WIFEXITED(status) && WEXITSTATUS(status) != 0 && says(bug, text);
    } else {
        right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    (void)printf("%s %s, %s, seed %d: status %#x%s\n%s", bug->name,
            child->planted ? "planted" : "absent", child->when, child->seed, status,
            right ? "" : ", WRONG", right && !child->planted ? "" : text);
    return right;
}

static int judge(const struct bug *bug, const char *program)
{
    enum {
        SEEDS = 3,
        CHILDREN = 2 * 2 * SEEDS,
        AT_ONCE = 4
    };
    struct child children[CHILDREN];
    bool right = true;

    for (int i = 0; i < CHILDREN; i++) {
        children[i] = (struct child){ .when = i % 4 < 2 ? "first" : "planned",
            .planted = i % 2 != 0,
            .seed = 1 + i / 4 };
    }
    for (int i = 0; i < CHILDREN; i += AT_ONCE) {
        for (int k = i; k < i + AT_ONCE; k++) {
            begin(&children[k], program, bug->name);
        }
        for (int k = i; k < i + AT_ONCE; k++) {
            right = end(&children[k], bug) && right;
        }
    }
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof bugs / sizeof *bugs; i++) {
        if (strcmp(argv[1], bugs[i].name) == 0) {
            return argc == 4 ? run(argv[1], argv[2], argv[3])
                             : judge(&bugs[i], argv[0]);
        }
    }
    (void)fprintf(stderr, "test_gpu_planted BUG [first|planned 0|1]\n");
    return 2;
}
