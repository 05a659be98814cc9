/*
 * Bugs on purpose (lib/base/faults.h), each of which must make a trainer's run fail, over the
 * simulated GPU and under every seed of its delays.
 *
 *     test_gpu_planted BUG                  runs a trainer without and with the bug, and judges
 *     test_gpu_planted BUG WHEN PLANTED     a run: WHEN the bug comes, `first` or `later`
 *                                           (when tensors have numbers); PLANTED, 0 or 1
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/faults.h"
#include "test/gpu/ends.h"
#include "test/gpusim/nccl/gpusim_nccl.h"

enum {
    RANKS = 2,
    TENSORS = 3, /* two gradients, and what rank 0 tells the others */
    COUNT = 700,
    STEPS = 3, /* with the bug, or the same without */
    NAMED_STEPS = 2, /* before tensors have numbers */
    OUTPUT_MAX = 1 << 16
};

#define ASK_NS INT64_C(1000000)
#define TELL_NS (2 * ENDS_SECONDS)

static const char unchecked[] = "unchecked_error";

/** A bug, and how a run must fail with it: any of these is said. */
static const struct bug {
    const char *name; /* of tutti_fault_set() */
    const char *says[2]; /* NULL: no more */
} bugs[] = {
    { "removed_event_wait", { "RACE: " } },
    { "skipped_collective", { "MISMATCH in communicator", ", not " } },
    { "unchecked_error", { "the error was told" } },
    { "wait_stream_before_issue", { "RACE: ", ", not " } },
};

/* ----------------------------------------------------------------- the trainer */

static const char *bug_name; /* of this run */
static bool bug_waits; /* it comes when tensors have numbers */
static bool bug_comes;
static _Atomic int asked; /* the step in which rank 0 has waited in vain */

struct trainer {
    float *tensors[TENSORS]; /* of the device */
    float *results[TENSORS]; /* pinned */
};

static float value_of(int rank, int step, int tensor)
{
    return (float)((rank + 1) * (1 + step % 50 + 100 * tensor));
}

static void submit(
        struct ends_rank *r, const struct trainer *trainer, tutti_request *requests)
{
    static const char *const names[] = { "weight", "bias" };
    const tutti_options options = ends_on(r->stream);
    const int last = TENSORS - 1;

    for (int i = 0; i < last; i++) {
        requests[i] = ends_sum(r, names[i], trainer->tensors[i], trainer->tensors[i],
                COUNT, r->stream);
    }
    CHECK(tutti_broadcast_async(r->t, "statistics", trainer->tensors[last], COUNT,
                  TUTTI_FLOAT32, 0, &options, &requests[last]) == TUTTI_OK);
}

static tutti_status wait_on_stream(
        struct ends_rank *r, tutti_request *requests, int64_t timeout_ns)
{
    const tutti_status status =
            tutti_wait_stream_all(r->t, TENSORS, requests, r->stream, timeout_ns, NULL);

    CHECK(status == TUTTI_OK || status == TUTTI_ERR_TIMEOUT);
    return status;
}

/*
 * Rank 0 asks for the results while rank 1 has submitted nothing, so nothing can be issued:
 * by the rules it does not get them. Then it lets rank 1 go on.
 */
static void wait_in_turn(struct ends_rank *r, int step, tutti_request *requests)
{
    const bool has_results =
            r->rank == 0 && wait_on_stream(r, requests, ASK_NS) == TUTTI_OK;

    atomic_store(&asked, step);
    if (!has_results) {
        (void)wait_on_stream(r, requests, TUTTI_FOREVER);
    }
}

/* A step of the trainer; steps count from 1. */
static void run_step(struct ends_rank *r, const struct trainer *trainer, int step)
{
    tutti_request requests[TENSORS];

    for (int i = 0; i < TENSORS; i++) {
        ends_fill(r, trainer->tensors[i], value_of(r->rank, step, i), COUNT, r->stream);
    }
    while (r->rank != 0 && atomic_load(&asked) < step) {
        ends_nap();
    }
    submit(r, trainer, requests);
    wait_in_turn(r, step, requests);
    for (int i = 0; i < TENSORS; i++) {
        ends_take(r, trainer->results[i], trainer->tensors[i], COUNT, r->stream);
    }
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    for (int i = 0; i < TENSORS; i++) {
        const float first = value_of(0, step, i);

        ends_expect(r, trainer->results[i],
                i + 1 < TENSORS ? first + value_of(1, step, i) : first, COUNT);
    }
    ends_meet(r);
}

/* ---------------------------------------------------------------------- a run */

/*
 * NCCL finds an error, and the ranks are told by whoever looks first: however long that
 * takes, unless the bug is there, with which it takes for ever.
 */
static void meet_error(struct ends_rank *r, float *memory)
{
    tutti_request request;
    tutti_status status;

    if (r->rank == 0) {
        gpusim_nccl_fail("*:async:0:6");
    }
    ends_meet(r);
    request = ends_sum(r, "last", memory, memory, COUNT, NULL);
    status = tutti_wait(r->t, &request, bug_comes ? TELL_NS : TUTTI_FOREVER);
    CHECK(status == TUTTI_ERR_CONTEXT_FAILED && "the error was told");
    CHECK(strstr(tutti_last_error(), "NCCL cannot ") != NULL);
}

static void train(struct ends_rank *r)
{
    struct trainer trainer;
    int step = 1;

    for (int i = 0; i < TENSORS; i++) {
        trainer.tensors[i] = ends_alloc(r, COUNT);
        trainer.results[i] = ends_pinned(r, COUNT);
    }
    while (bug_waits && step <= NAMED_STEPS) {
        run_step(r, &trainer, step++);
    }
    if (bug_comes && r->rank == 0) {
        CHECK(tutti_fault_set(bug_name) == TUTTI_OK);
    }
    ends_meet(r);
    for (int i = 0; i < (bug_name == unchecked ? 1 : STEPS); i++) {
        run_step(r, &trainer, step++);
    }
    if (bug_name == unchecked) {
        meet_error(r, trainer.tensors[0]);
    }
    for (int i = 0; i < TENSORS; i++) {
        ends_free(r, trainer.tensors[i]);
        ends_unpin(r, trainer.results[i]);
    }
}

static int run(const struct bug *bug, const char *when, const char *comes)
{
    const struct ends_case what = { .body = train,
        .parameters = "",
        .finalize = strcmp(bug->name, unchecked) == 0 ? TUTTI_ERR_CONTEXT_FAILED
                                                      : TUTTI_OK };

    bug_name = what.finalize == TUTTI_OK ? bug->name : unchecked;
    bug_waits = strcmp(when, "later") == 0;
    bug_comes = strcmp(comes, "1") == 0;
    return ends_run(
            &what, RANKS, GPUSIM_NCCL); /* 97, if the simulator has found anything */
}

/* ------------------------------------------------------------------ the judge */

/** A run of this program. */
struct child {
    const char *when;
    int seed;
    bool planted;
    pid_t pid;
    FILE *output; /* what it says */
};

static void begin(struct child *child, const char *name)
{
    char seed[16];

    child->output = tmpfile();
    child->pid = child->output != NULL ? fork() : -1;
    if (child->pid < 0) {
        abort();
    }
    if (child->pid == 0) {
        (void)snprintf(seed, sizeof seed, "%d", child->seed);
        (void)setenv("GPUSIM_SEED", seed, 1);
        (void)setenv("GPUSIM_DELAY_US", "200", 1);
        (void)dup2(fileno(child->output), STDERR_FILENO);
        (void)execl("/proc/self/exe", "test_gpu_planted", name, child->when,
                child->planted ? "1" : "0", (char *)NULL);
        _exit(126);
    }
}

/* True when the run has ended as it must. */
static bool end(const struct child *child, const struct bug *bug)
{
    static char text[OUTPUT_MAX];
    int status = 0;
    bool right;

    (void)waitpid(child->pid, &status, 0);
    rewind(child->output);
    text[fread(text, 1, sizeof text - 1, child->output)] = '\0';
    (void)fclose(child->output);
    right = WIFEXITED(status) && (WEXITSTATUS(status) != 0) == child->planted;
    if (child->planted) {
        right = right &&
                (strstr(text, bug->says[0]) != NULL ||
                        (bug->says[1] != NULL && strstr(text, bug->says[1]) != NULL));
    }
    (void)printf("%s %s, %s, seed %d: status %#x%s\n%s", bug->name,
            child->planted ? "planted" : "absent", child->when, child->seed,
            (unsigned)status, right ? "" : ", WRONG",
            right && !child->planted ? "" : text);
    return right;
}

static int judge(const struct bug *bug)
{
    enum {
        SEEDS = 3,
        AT_ONCE = 4
    };
    bool right = true;

    for (int seed = 1; seed <= SEEDS; seed++) {
        struct child children[AT_ONCE];

        for (int k = 0; k < AT_ONCE; k++) {
            children[k] = (struct child){
                .when = k < 2 ? "first" : "later", .planted = k % 2 != 0, .seed = seed
            };
            begin(&children[k], bug->name);
        }
        for (int k = 0; k < AT_ONCE; k++) {
            right = end(&children[k], bug) && right;
        }
    }
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof bugs / sizeof *bugs; i++) {
        if (strcmp(argv[1], bugs[i].name) == 0) {
            return argc == 4 ? run(&bugs[i], argv[2], argv[3]) : judge(&bugs[i]);
        }
    }
    (void)fprintf(stderr, "test_gpu_planted BUG [first|later 0|1]\n");
    return 2;
}
