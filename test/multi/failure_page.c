/*
 * tuttirun has said why the job failed: every rank's wait ends with it, whatever the rank
 * was doing. Here each rank's own thread is its supervisor, and no rank is told by another.
 *
 *   failure_page blocked|steps|background|late
 *
 * blocked: ranks wait for what others never submit. steps: they repeat one. background:
 * they do not wait, an operation with a callback is in flight. late: a rank dies, which the
 * others see by themselves before they are told; under a launcher that lets them live.
 */
#include "base/failure_page.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "base/clock.h"

#define CAUSE "rank 7 on host far was killed by signal 9 (SIGKILL)"
#define MOMENT_NS 200000000
/* After a death: later than others see it, and sooner than they stop to hope for more. */
#define LATE_NS 150000000
#define PATIENCE_NS 1000000000

enum {
    STEPS = 1000,
    RANKS_MAX = 64,
    HANG_SECONDS = 1000
};

/** What a rank and its supervisor's thread share. */
struct rank {
    struct failure_page page; /* the supervisor's side                               */
    tutti *t;
    int victim; /* pidfd of the rank that dies; -1: none does          */
    _Atomic int steps; /* that it has done; -1: it waits for nothing to come  */
    _Atomic int64_t posted_ns; /* when the supervisor posted the cause                */
    _Atomic int called; /* times that the callback was called                  */
    _Atomic bool is_right; /* the callback got the cause                          */
};

static void expect(bool is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "failure_page: not %s: %s\n", what, tutti_last_error());
        _Exit(1);
    }
}

static bool is_cause(tutti_status status, const char *text)
{
    return status == TUTTI_ERR_CONTEXT_FAILED && strstr(text, CAUSE) != NULL;
}

/* ------------------------------------------------------------- supervisor */

/* Until the rank has done its steps, or can do no more because others were told before. */
static void await_steps(struct rank *rank)
{
    int seen = 0;
    int64_t since_ns = clock_ns();

    while (atomic_load(&rank->steps) >= 0 && seen < STEPS &&
            clock_ns() - since_ns < 5 * (int64_t)MOMENT_NS) {
        if (atomic_load(&rank->steps) > seen) {
            seen = atomic_load(&rank->steps);
            since_ns = clock_ns();
        }
        clock_sleep_ns(1000000);
    }
}

static void await_death(struct rank *rank)
{
    struct pollfd ended = { .fd = rank->victim, .events = POLLIN };

    while (poll(&ended, 1, -1) != 1) {
        expect(errno == EINTR, "dead"); /* MPICH signals the ends of others */
    }
    clock_sleep_ns(LATE_NS);
}

static void *supervise(void *argument)
{
    struct rank *rank = argument;

    if (rank->victim >= 0) {
        await_death(rank);
    } else {
        await_steps(rank);
        clock_sleep_ns(MOMENT_NS);
    }
    atomic_store(&rank->posted_ns, clock_ns());
    failure_page_post(&rank->page, 7, CAUSE);
    return NULL;
}

/* -------------------------------------------------------------------- rank */

/* Nobody else submits what this rank does. */
static const char *own_name(struct rank *rank, char name[32])
{
    (void)snprintf(name, 32, "of rank %d", tutti_rank(rank->t));
    return name;
}

static void be_blocked(struct rank *rank)
{
    char name[32];
    int32_t value = 1;
    tutti_status status;

    atomic_store(&rank->steps, -1);
    status = tutti_allreduce(rank->t, own_name(rank, name), &value, &value, 1,
            TUTTI_INT32, TUTTI_SUM, NULL);
    expect(is_cause(status, tutti_last_error()), "told while it waited");
}

static tutti_status step(struct rank *rank)
{
    int32_t value = 1;

    return tutti_allreduce(
            rank->t, "step", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL);
}

static void repeat(struct rank *rank)
{
    tutti_status status = step(rank);

    while (status == TUTTI_OK) {
        atomic_fetch_add(&rank->steps, 1);
        status = step(rank);
    }
    expect(is_cause(status, tutti_last_error()), "told while it repeated a step");
}

static void note(void *user, tutti_status status, const char *message)
{
    struct rank *rank = user;

    atomic_store(&rank->is_right, is_cause(status, message));
    atomic_fetch_add(&rank->called, 1);
}

static void be_called(struct rank *rank)
{
    tutti_options options;
    char name[32];
    int32_t value = 1;

    tutti_options_default(&options);
    options.callback = note;
    options.user = rank;
    atomic_store(&rank->steps, -1);
    expect(tutti_allreduce_async(rank->t, own_name(rank, name), &value, &value, 1,
                   TUTTI_INT32, TUTTI_SUM, &options, NULL) == TUTTI_OK,
            "submitted");
    while (atomic_load(&rank->called) == 0) {
        clock_sleep_ns(100000);
    }
    expect(atomic_load(&rank->is_right), "told by the callback");
}

/* The last rank dies; of the others' supervisors each knows how. */
static void die_or_see(struct rank *rank, pthread_t *supervisor, bool is_killed)
{
    int64_t pids[RANKS_MAX];
    const int64_t mine = getpid();
    const int last = tutti_size(rank->t) - 1;
    tutti_status status;
    int64_t since_ns;

    expect(tutti_allgather(rank->t, "pids", &mine, pids, 1, 1, NULL, TUTTI_INT64,
                   NULL) == TUTTI_OK,
            "introduced");
    if (tutti_rank(rank->t) == last) {
        clock_sleep_ns(MOMENT_NS);
        if (is_killed) {
            (void)raise(SIGKILL);
        }
        _Exit(0);
    }
    rank->victim = (int)syscall(SYS_pidfd_open, (pid_t)pids[last], 0);
    expect(pthread_create(supervisor, NULL, supervise, rank) == 0, "supervised");
    do {
        since_ns = clock_ns();
        status = step(rank);
    } while (status == TUTTI_OK);
    /* All its patience, which began after the last good step. */
    if (strstr(tutti_last_error(), "has died") != NULL &&
            clock_ns() - since_ns >= PATIENCE_NS) {
        (void)printf("the supervisor came too late: nothing was shown\n");
        return;
    }
    expect(is_cause(status, tutti_last_error()), "told how the other died");
}

static void after(struct rank *rank)
{
    const int64_t posted_ns = atomic_load(&rank->posted_ns);

    expect(is_cause(step(rank), tutti_last_error()), "told of it afterwards");
    (void)printf("rank %d was told after %.3f ms\n", tutti_rank(rank->t),
            (double)(clock_ns() - posted_ns) / 1e6);
    (void)fflush(stdout);
}

static void be_supervised(struct rank *rank)
{
    char number[16];

    expect(failure_page_create(&rank->page) == TUTTI_OK, "a page");
    (void)snprintf(number, sizeof number, "%d", rank->page.fd);
    expect(setenv(FAILURE_PAGE_VARIABLE, number, 1) == 0, "a variable");
    expect(tutti_init(&rank->t, NULL) == TUTTI_OK, "initialised");
    expect(failure_page_stage(&rank->page) == LIBRARY_STAGE_RUNNING, "running");
    expect(tutti_size(rank->t) <= RANKS_MAX, "so many ranks");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    struct rank rank = { .victim = -1 };
    pthread_t supervisor;

    (void)alarm(HANG_SECONDS);
    be_supervised(&rank);
    if (strcmp(mode, "late") == 0) {
        die_or_see(&rank, &supervisor, argc > 2 && strcmp(argv[2], "killed") == 0);
        (void)printf("told\n");
        (void)fflush(stdout);
        _Exit(0);
    }
    expect(pthread_create(&supervisor, NULL, supervise, &rank) == 0, "supervised");
    if (strcmp(mode, "steps") == 0) {
        repeat(&rank);
    } else if (strcmp(mode, "background") == 0) {
        be_called(&rank);
    } else {
        be_blocked(&rank);
    }
    expect(pthread_join(supervisor, NULL) == 0, "joined");
    after(&rank);
    expect(tutti_finalize(rank.t) == TUTTI_ERR_CONTEXT_FAILED, "told by finalize");
    if (failure_page_stage(&rank.page) != LIBRARY_STAGE_FINALIZED) {
        /* The others came too late for tutti, but they come. */
        expect(strstr(tutti_last_error(), "MPI was not finalized") != NULL,
                "finalized");
        (void)MPI_Finalize();
    }
    return 0;
}
