/*
 * Nothing waits for a clock: of two tensors that were always submitted together one alone ends, while
 * every clock stands still, whether somebody waits for it or not and whatever else is submitted.
 *
 * Linked with a clock that can be stopped, also for sleeps. With a timer in the way the test would
 * not end.
 */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include <tutti/tutti.h>

#include "test/unit/unit.h"

enum {
    RANKS = 2,
    STEPS = 50,
    COUNT = 256,
    ALONE = 20,
    NAP_NS = 1000000 /* sleeps so long do not end by themselves */
};

static atomic_bool is_frozen;
static struct timespec moment;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    if (atomic_load(&is_frozen)) {
        *now = moment;
        return 0;
    }
    return __real_clock_gettime(id, now);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Of the system calls of this name only futex() has something to wait for. */
long __wrap_syscall(long number, ...)
{
    long arguments[6];
    const struct timespec *limit;
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        arguments[i] = va_arg(list, long);
    }
    va_end(list);
    limit = (const struct timespec *)arguments[3];
    if (number == SYS_futex && atomic_load(&is_frozen) && limit != NULL &&
            (limit->tv_sec > 0 || limit->tv_nsec >= NAP_NS)) {
        arguments[3] = 0;
    }
    return __real_syscall(number, arguments[0], arguments[1], arguments[2],
            arguments[3], arguments[4], arguments[5]);
}

/** A rank: a thread with a context. */
struct rank {
    tutti *t;
    pthread_barrier_t *barrier;
    pthread_t thread;
    float a[COUNT], b[COUNT];
    _Atomic int ended; /* uses of a alone */
    /* What its callback submits again and again, until all ranks have a. */
    tutti_options again;
    int32_t missing, sum;
    atomic_bool is_over;
    atomic_int failed; /* calls */
};

static void check(struct rank *rank, tutti_status status)
{
    if (status != TUTTI_OK) {
        atomic_fetch_add(&rank->failed, 1);
    }
}

static tutti_request begin(
        struct rank *rank, const char *name, float *data, const tutti_options *options)
{
    tutti_request request = TUTTI_REQUEST_NULL;

    check(rank,
            tutti_allreduce_async(rank->t, name, data, data, COUNT, TUTTI_FLOAT32,
                    TUTTI_MAX, options, &request));
    return request;
}

static void learn(struct rank *rank)
{
    for (int i = 0; i < STEPS; i++) {
        tutti_request requests[] = { begin(rank, "a", rank->a, NULL),
            begin(rank, "b", rank->b, NULL) };

        check(rank, tutti_wait_all(rank->t, 2, requests, TUTTI_FOREVER, NULL));
    }
}

/* Between two barriers nothing is under way. */
static void freeze(const struct rank *rank, bool frozen)
{
    (void)pthread_barrier_wait(rank->barrier);
    if (tutti_rank(rank->t) == 0) {
        if (frozen) {
            (void)__real_clock_gettime(CLOCK_MONOTONIC, &moment);
        }
        atomic_store(&is_frozen, frozen);
    }
    (void)pthread_barrier_wait(rank->barrier);
}

static void note(void *user, tutti_status status, const char *text)
{
    struct rank *rank = user;

    (void)text;
    check(rank, status);
    atomic_fetch_add(&rank->ended, 1);
}

/* The program sleeps, and nobody is in tutti. */
static void alone_with_callback(struct rank *rank)
{
    tutti_options options;

    tutti_options_default(&options);
    options.callback = note;
    options.user = rank;
    for (int i = 0; i < ALONE; i++) {
        (void)begin(rank, "a", rank->a, &options);
        while (atomic_load(&rank->ended) <= i) {
            (void)sched_yield();
        }
    }
}

static void go_round(void *user, tutti_status status, const char *text)
{
    struct rank *rank = user;

    (void)text;
    check(rank, status);
    if (status != TUTTI_OK || rank->sum == 0) {
        atomic_store(&rank->is_over, true);
        return;
    }
    rank->missing = atomic_load(&rank->ended) < 2 * ALONE;
    check(rank,
            tutti_allreduce_async(rank->t, "c", &rank->missing, &rank->sum, 1,
                    TUTTI_INT32, TUTTI_SUM, &rank->again, NULL));
}

static void alone_beside_others(struct rank *rank)
{
    rank->sum = 1;
    tutti_options_default(&rank->again);
    rank->again.callback = go_round;
    rank->again.user = rank;
    go_round(rank, TUTTI_OK, "");
    for (int i = 0; i < ALONE; i++) {
        tutti_request request = begin(rank, "a", rank->a, NULL);

        check(rank, tutti_wait(rank->t, &request, TUTTI_FOREVER));
        atomic_fetch_add(&rank->ended, 1);
    }
    while (!atomic_load(&rank->is_over)) {
        (void)sched_yield();
    }
}

static void *rank_main(void *argument)
{
    struct rank *rank = argument;

    learn(rank);
    freeze(rank, true);
    learn(rank); /* that waiters come by themselves */
    alone_with_callback(rank);
    freeze(rank, false);
    learn(rank);
    freeze(rank, true);
    alone_beside_others(rank);
    freeze(rank, false);
    check(rank, tutti_finalize(rank->t));
    return NULL;
}

UNIT_TEST(test_a_tensor_alone_waits_for_no_clock)
{
    static struct rank ranks[RANKS];
    tutti *contexts[RANKS];
    pthread_barrier_t barrier;

    assert_int_equal(pthread_barrier_init(&barrier, NULL, RANKS), 0);
    ASSERT_OK(tutti_init_local(RANKS, contexts, NULL));
    for (int r = 0; r < RANKS; r++) {
        ranks[r].t = contexts[r];
        ranks[r].barrier = &barrier;
        assert_int_equal(
                pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(ranks[r].failed, 0);
    }
    (void)pthread_barrier_destroy(&barrier);
}
