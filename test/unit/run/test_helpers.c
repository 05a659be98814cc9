/*
 * Helpers: a driver with jobs and threads that wait beside it. The number of cores is
 * made up, so that helpers come or stay away whatever the machine does. What a helper does
 * at the wrong time is seen by the pieces, and by ThreadSanitizer; one that does not come
 * when it must shows as a hang, which the test's time limit ends.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "run/helpers.h"
#include "test/unit/unit.h"

enum {
    WAITERS_MAX = 5,
    PIECES_MAX = 24,
    JOBS = 4000,
    MANY_CORES = 1000000,
    NO_CORES = -1000000
};

/** A rank: its helpers, and the threads that wait beside its driver. */
struct rank {
    struct helpers helpers;
    struct doorbell bell;
    struct cpu_load load;
    _Atomic int over; /* the waits are */
    int waiters;
    pthread_t threads[WAITERS_MAX];
};

/** A job that notices who touches it when. Its fields are not atomic but where needed. */
struct job {
    bool is_open;
    int done[PIECES_MAX]; /* times each piece was called */
    _Atomic int inside, most_inside; /* threads in a piece */
};

static void rank_init(struct rank *rank, int reduce_threads, int spin_us, int cores)
{
    const struct config config = { .reduce_threads = reduce_threads,
        .spin_us = spin_us };

    *rank = (struct rank){ .waiters = 0 };
    cpu_load_init(&rank->load);
    rank->load.allowed = cores;
    helpers_init(&rank->helpers, &config, &rank->bell, &rank->load);
}

/* As a thread in tutti_wait() beside a driver. */
static void *wait_beside(void *argument)
{
    struct rank *rank = argument;

    for (;;) {
        const uint32_t seen = doorbell_listen(&rank->bell);

        if (atomic_load_explicit(&rank->over, memory_order_relaxed) != 0) {
            return NULL;
        }
        helpers_take_part(&rank->helpers, seen, INT64_MAX);
        doorbell_sleep(&rank->bell, seen, INT64_MAX);
    }
}

static void rank_wait(struct rank *rank, int waiters)
{
    for (; rank->waiters < waiters; rank->waiters++) {
        assert_int_equal(
                pthread_create(&rank->threads[rank->waiters], NULL, wait_beside, rank),
                0);
    }
    while (atomic_load(&rank->bell.sleepers) < (uint32_t)waiters) {
        (void)sched_yield();
    }
}

static void rank_end_waits(struct rank *rank)
{
    atomic_store(&rank->over, 1);
    doorbell_ring(&rank->bell);
    for (; rank->waiters > 0; rank->waiters--) {
        assert_int_equal(pthread_join(rank->threads[rank->waiters - 1], NULL), 0);
    }
    atomic_store(&rank->over, 0);
}

static void rank_fini(struct rank *rank)
{
    rank_end_waits(rank);
    assert_int_equal(atomic_load(&rank->helpers.hot), 0);
    assert_int_equal(atomic_load(&rank->helpers.gate), 0);
    cpu_load_fini(&rank->load);
}

static void job_piece(void *arg, size_t index)
{
    struct job *job = arg;
    const int inside = atomic_fetch_add(&job->inside, 1) + 1;
    int most = atomic_load(&job->most_inside);

    while (inside > most &&
            !atomic_compare_exchange_weak(&job->most_inside, &most, inside)) {
    }
    job->done[index] += job->is_open ? 1 : 1000;
    (void)atomic_fetch_sub(&job->inside, 1);
}

/* A piece that ends when another thread is in a piece of the job, too. */
static void job_meet(void *arg, size_t index)
{
    struct job *job = arg;

    job_piece(arg, index);
    (void)atomic_fetch_add(&job->inside, 1);
    while (atomic_load(&job->inside) < 2) {
        (void)sched_yield();
    }
}

static bool job_is_right(const struct job *job, size_t pieces)
{
    for (size_t i = 0; i < PIECES_MAX; i++) {
        if (job->done[i] != (i < pieces ? 1 : 0)) {
            return false;
        }
    }
    return true;
}

UNIT_TEST(test_without_waiting_threads_nothing_is_shared)
{
    struct job job = { .is_open = true };
    struct rank rank;

    rank_init(&rank, 0, 1000000, MANY_CORES);
    assert_true(helpers_may_help(&rank.helpers));
    assert_false(helpers_share(&rank.helpers, job_piece, &job, PIECES_MAX));
    assert_true(job_is_right(&job, 0));
    rank_fini(&rank);
}

static void expect_no_help(int reduce_threads, int spin_us, int cores)
{
    struct job job = { .is_open = true };
    struct rank rank;
    uint32_t rings;

    rank_init(&rank, reduce_threads, spin_us, cores);
    rank_wait(&rank, 2);
    rings = doorbell_listen(&rank.bell);
    for (int i = 0; i < JOBS; i++) {
        assert_false(helpers_share(&rank.helpers, job_piece, &job, PIECES_MAX));
    }
    /* Nobody was woken in vain. */
    assert_int_equal(doorbell_listen(&rank.bell), rings);
    assert_true(job_is_right(&job, 0));
    rank_fini(&rank);
}

UNIT_TEST(test_one_thread_or_no_spinning_means_no_crew)
{
    expect_no_help(1, 1000000, MANY_CORES);
    expect_no_help(0, 0, MANY_CORES);
}

UNIT_TEST(test_without_an_idle_core_nobody_is_woken)
{
    expect_no_help(0, 1000000, NO_CORES);
}

/* Two pieces that can only end together: somebody helps with each job. */
UNIT_TEST(test_a_sleeping_thread_is_called_and_helps)
{
    struct rank rank;

    rank_init(&rank, 2, 1000000, MANY_CORES);
    /* One that gave up on its way would leave the driver alone in its piece. */
    rank.helpers.patience_ns = INT64_MAX / 2;
    rank_wait(&rank, 1);
    for (int i = 0; i < 100; i++) {
        struct job job = { .is_open = true };

        while (!helpers_share(&rank.helpers, job_meet, &job, 2)) {
            (void)sched_yield();
        }
        job.is_open = false;
        assert_true(job_is_right(&job, 2));
    }
    assert_int_equal(atomic_load(&rank.helpers.helped), 100);
    rank_fini(&rank);
}

/* Jobs of all lengths; what nobody helps with is not touched. */
static int run_jobs(struct rank *rank, int jobs, int most)
{
    int shared = 0;

    for (int i = 0; i < jobs; i++) {
        const size_t pieces = (size_t)(i * 7 % (PIECES_MAX + 1));
        struct job job = { .is_open = true };
        const bool is_shared = helpers_share(&rank->helpers, job_piece, &job, pieces);

        job.is_open = false;
        assert_true(job_is_right(&job, is_shared ? pieces : 0));
        assert_true(atomic_load(&job.most_inside) <= most);
        shared += is_shared;
    }
    return shared;
}

/* Until a helper has taken a piece. */
static void run_until_helped(struct rank *rank, int most)
{
    const uint64_t before = atomic_load(&rank->helpers.helped);

    while (atomic_load(&rank->helpers.helped) == before) {
        (void)run_jobs(rank, 100, most);
    }
}

UNIT_TEST(test_pieces_run_once_and_none_after_the_job)
{
    struct rank rank;
    int shared = 0;

    rank_init(&rank, 0, 1000000, MANY_CORES);
    /* Waits begin and end all the time. */
    for (int waiters = 1; waiters <= WAITERS_MAX; waiters++) {
        rank_wait(&rank, waiters);
        run_until_helped(&rank, 1 + waiters);
        shared += run_jobs(&rank, JOBS, 1 + waiters);
        rank_end_waits(&rank);
        shared += run_jobs(&rank, 10, 1);
    }
    assert_true(shared > 0);
    rank_fini(&rank);
}

UNIT_TEST(test_helpers_come_and_go_during_jobs)
{
    struct rank rank;

    /* They fall asleep between most jobs. */
    rank_init(&rank, 0, 1, MANY_CORES);
    rank_wait(&rank, 3);
    for (int i = 0; i < 50; i++) {
        (void)run_jobs(&rank, 100, 4);
        /* An operation of one of them ends. */
        doorbell_ring(&rank.bell);
    }
    rank_fini(&rank);
}

UNIT_TEST(test_no_more_threads_than_allowed)
{
    struct rank rank;

    rank_init(&rank, 3, 1000000, MANY_CORES);
    rank_wait(&rank, WAITERS_MAX);
    for (int i = 0; i < 10; i++) {
        run_until_helped(&rank, 3);
        (void)run_jobs(&rank, JOBS / 10, 3);
    }
    assert_true(atomic_load(&rank.helpers.hot) <= 2);
    rank_fini(&rank);
}

UNIT_TEST(test_without_jobs_helpers_sleep)
{
    struct rank rank;
    uint32_t rings;

    rank_init(&rank, 0, 2000, MANY_CORES);
    rank_wait(&rank, 2);
    run_until_helped(&rank, 3);
    rings = doorbell_listen(&rank.bell);
    while (atomic_load(&rank.bell.sleepers) < 2) {
        (void)sched_yield();
    }
    assert_int_equal(atomic_load(&rank.helpers.hot), 0);
    assert_int_equal(doorbell_listen(&rank.bell), rings);
    rank_fini(&rank);
}

/* The cores are taken away, or come back. */
static void change_cores(struct helpers *helpers, int cores)
{
    int64_t due = atomic_load(&helpers->look_ns);

    while (due == INT64_MAX ||
            !atomic_compare_exchange_weak(&helpers->look_ns, &due, INT64_MAX)) {
        due = atomic_load(&helpers->look_ns);
    }
    helpers->load.allowed = cores;
    helpers->load.sampled_ns = 0;
    atomic_store(&helpers->look_ns, 0);
}

UNIT_TEST(test_helpers_leave_when_the_cores_are_gone)
{
    struct rank rank;

    rank_init(&rank, 0, 1000000, MANY_CORES);
    rank_wait(&rank, 3);
    run_until_helped(&rank, 4);
    change_cores(&rank.helpers, NO_CORES);
    while (atomic_load(&rank.bell.sleepers) < 3) {
        (void)run_jobs(&rank, 1, 4);
    }
    change_cores(&rank.helpers, MANY_CORES);
    run_until_helped(&rank, 4);
    rank_fini(&rank);
}

UNIT_TEST(test_a_wait_that_is_over_ends_the_help)
{
    struct rank rank;
    uint32_t seen;

    rank_init(&rank, 0, 1000000, MANY_CORES);
    /* The driver has just had a job, and there are cores: a helper would stay. */
    atomic_store(&rank.helpers.offered_ns, clock_ns() + INT64_C(1000000000000));
    atomic_store(&rank.helpers.seats, 1);
    seen = doorbell_listen(&rank.bell);
    helpers_take_part(&rank.helpers, seen, clock_ns() - 1);
    helpers_take_part(&rank.helpers, seen, clock_ns() + 1000000);
    doorbell_ring(&rank.bell);
    helpers_take_part(&rank.helpers, seen, INT64_MAX);
    rank_fini(&rank);
}
