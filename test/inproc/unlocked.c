/*
 * Operations of registered tensors take no lock once their names have numbers: they are
 * submitted, agreed on, moved, ended and consumed while another thread holds the lock of the
 * context. Linked with the rooms, to get at that lock. A rank that wants it after all hangs,
 * which the time limit of the test ends. They have the priority that was registered.
 */
#include <pthread.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "base/clock.h"
#include "run/context.h"
#include "test/unit/unit.h"

enum {
    RANKS_MAX = 3,
    TENSORS = 20,
    STEPS = 50,
    STEPS_BY_NAME = 3, /* at most, until there are numbers */
    ELEMENTS = 1000,
    POLL_NS = 100000
};

/** What the ranks share: when the locks are held. */
struct shared {
    pthread_barrier_t ready, locked;
};

/** A rank: a thread with a context. */
struct trainer {
    tutti *t;
    struct shared *shared;
    tutti_tensor tensors[TENSORS + 1];
    float gradients[TENSORS][ELEMENTS];
    bool failed;
    pthread_t thread;
};

static void must(struct trainer *trainer, tutti_status status)
{
    trainer->failed = trainer->failed || status != TUTTI_OK;
}

static void register_all(struct trainer *trainer)
{
    char name[32];

    for (int i = 0; i <= TENSORS; i++) {
        const tutti_tensor_desc desc = { .size = sizeof desc,
            .name = name,
            .collective = i == TENSORS ? TUTTI_BARRIER : TUTTI_ALLREDUCE,
            .count = ELEMENTS,
            .dtype = TUTTI_FLOAT32,
            .op = TUTTI_AVERAGE };

        (void)snprintf(name, sizeof name, "layer %d", i);
        must(trainer, tutti_tensor_register(trainer->t, &desc, &trainer->tensors[i]));
    }
}

static void count_end(void *user, tutti_status status, const char *message)
{
    _Atomic int *ends = user;

    (void)message;
    (void)atomic_fetch_add(ends, status == TUTTI_OK ? 1 : 1000);
}

/* By request and by callback, polled and waited for. */
static void step(struct trainer *trainer)
{
    tutti_request requests[TENSORS];
    tutti_request gate;
    _Atomic int ends = 0;

    for (int i = 0; i < TENSORS; i++) {
        const bool calls = i % 5 == 0;

        requests[i] = TUTTI_REQUEST_NULL;
        must(trainer,
                tutti_submit(trainer->t, trainer->tensors[i], trainer->gradients[i],
                        trainer->gradients[i], TUTTI_NO_STEP, calls ? count_end : NULL,
                        &ends, &requests[i]));
    }
    must(trainer,
            tutti_submit(trainer->t, trainer->tensors[TENSORS], NULL, NULL,
                    TUTTI_NO_STEP, NULL, NULL, &gate));
    must(trainer, tutti_wait(trainer->t, &gate, TUTTI_FOREVER));
    must(trainer, tutti_wait_all(trainer->t, TENSORS, requests, TUTTI_FOREVER, NULL));
    /*
     * Callbacks may run a moment after others see that the operations are done. How long
     * that takes differs between ranks, so it is not waited for with collectives, of
     * which all ranks must submit as many: the background thread ends them.
     */
    while (atomic_load(&ends) < TENSORS / 5) {
        clock_sleep_ns(POLL_NS);
    }
    trainer->failed = trainer->failed || atomic_load(&ends) != TENSORS / 5;
}

static void *trainer_main(void *argument)
{
    struct trainer *trainer = argument;

    register_all(trainer);
    for (int i = 0; i < STEPS_BY_NAME; i++) {
        step(trainer);
    }
    (void)pthread_barrier_wait(&trainer->shared->ready);
    (void)pthread_barrier_wait(&trainer->shared->locked);
    for (int i = 0; i < STEPS; i++) {
        step(trainer);
    }
    (void)pthread_barrier_wait(&trainer->shared->ready);
    (void)pthread_barrier_wait(&trainer->shared->locked);
    must(trainer, tutti_finalize(trainer->t));
    return NULL;
}

static void run_ranks(int n)
{
    static struct trainer trainers[RANKS_MAX];
    struct shared shared;
    tutti *contexts[RANKS_MAX];

    assert_int_equal(pthread_barrier_init(&shared.ready, NULL, (unsigned)n + 1), 0);
    assert_int_equal(pthread_barrier_init(&shared.locked, NULL, (unsigned)n + 1), 0);
    ASSERT_OK(tutti_init_local(n, contexts, NULL));
    for (int r = 0; r < n; r++) {
        trainers[r] = (struct trainer){ .t = contexts[r], .shared = &shared };
        assert_int_equal(
                pthread_create(&trainers[r].thread, NULL, trainer_main, &trainers[r]),
                0);
    }
    (void)pthread_barrier_wait(&shared.ready);
    for (int r = 0; r < n; r++) {
        (void)pthread_mutex_lock(&contexts[r]->lock);
    }
    (void)pthread_barrier_wait(&shared.locked);
    (void)pthread_barrier_wait(&shared.ready);
    for (int r = 0; r < n; r++) {
        (void)pthread_mutex_unlock(&contexts[r]->lock);
    }
    (void)pthread_barrier_wait(&shared.locked);
    for (int r = 0; r < n; r++) {
        assert_int_equal(pthread_join(trainers[r].thread, NULL), 0);
        assert_false(trainers[r].failed);
    }
    (void)pthread_barrier_destroy(&shared.ready);
    (void)pthread_barrier_destroy(&shared.locked);
}

UNIT_TEST(test_one_rank_takes_no_lock)
{
    run_ranks(1);
}

UNIT_TEST(test_ranks_take_no_lock)
{
    run_ranks(RANKS_MAX);
}

static int priority_of(tutti *t, tutti_tensor tensor, bool in_group)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    float value = 1;
    int priority;

    assert_true(!in_group || tutti_group_begin(t) == TUTTI_OK);
    ASSERT_OK(tutti_submit(
            t, tensor, &value, &value, TUTTI_NO_STEP, NULL, NULL, &request));
    assert_true(!in_group || tutti_group_end(t) == TUTTI_OK);
    priority = operation_find(&t->work.operations, request)->request.priority;
    ASSERT_OK(tutti_wait(t, &request, TUTTI_FOREVER));
    return priority;
}

/* Without the lock, and with it. */
UNIT_TEST(test_registered_priority_counts)
{
    tutti_options options;
    tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "urgent",
        .collective = TUTTI_ALLREDUCE,
        .count = 1,
        .dtype = TUTTI_FLOAT32,
        .options = &options };
    tutti_tensor tensor;
    tutti *t;

    tutti_options_default(&options);
    options.priority = 77;
    ASSERT_OK(tutti_init_local(1, &t, NULL));
    ASSERT_OK(tutti_tensor_register(t, &desc, &tensor));
    assert_int_equal(priority_of(t, tensor, false), 77);
    assert_int_equal(priority_of(t, tensor, true), 77);
    ASSERT_OK(tutti_finalize(t));
}
