/*
 * Whether tensors are submitted by name or by id: once every name has its number and every buffer its size, a training step allocates
 * nothing, whatever collectives it uses; but for outputs that requests own. Linked with the
 * rooms, for the count of their allocations.
 *
 * How much fits into one turn of the engine depends on timing, so a buffer may grow once
 * more after any number of steps: the measurement is repeated until a long stretch of
 * steps is free of allocations, but not for ever.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

#include "base/mem.h"
#include "test/unit/unit.h"

enum {
    RANKS_MAX = 5,
    TENSORS = 200,
    ELEMENTS = 512,
    ROWS = 3, /* per rank, or more by its number where parts are unequal */
    PARTS_MAX = RANKS_MAX * (ROWS + RANKS_MAX),
    EXCHANGES = 9,
    WARM_UP_STEPS = 50,
    STEPS = 50,
    TRIES = 100
};

struct shared {
    pthread_barrier_t barrier;
    uint64_t
            allocations; /* during the last stretch; written by rank 0 between meetings */
};

/** A rank: a thread with a context. */
struct trainer {
    tutti *t;
    struct shared *shared;
    bool by_id; /* submits by id, not by name                               */
    tutti_tensor ids[TENSORS];
    float gradients[TENSORS][ELEMENTS];
    int32_t input[EXCHANGES][PARTS_MAX];
    int32_t output[EXCHANGES][PARTS_MAX];
    tutti_request requests[TENSORS + EXCHANGES];
    bool failed;
    pthread_t thread;
};

/* Rank r gives, and gets of each, ROWS + r rows. */
static void begin_unequal(struct trainer *r, tutti_status *status)
{
    const int n = tutti_size(r->t);
    const int me = tutti_rank(r->t);
    int64_t rows_of[RANKS_MAX];
    int64_t own[RANKS_MAX];
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        rows_of[i] = ROWS + i;
        own[i] = ROWS + me;
        sum += rows_of[i];
    }
    status[0] = tutti_allgather_async(r->t, "listed", r->input[0], r->output[0],
            ROWS + me, 1, rows_of, TUTTI_INT32, NULL, &r->requests[TENSORS]);
    status[1] = tutti_alltoall_async(r->t, "listed", r->input[1], r->output[1], sum, 1,
            rows_of, own, TUTTI_INT32, NULL, &r->requests[TENSORS + 1]);
    status[2] = tutti_gather_async(r->t, "listed", r->input[2], r->output[2], ROWS + me,
            1, rows_of, TUTTI_INT32, n - 1, NULL, &r->requests[TENSORS + 2]);
    status[3] = tutti_scatter_async(r->t, "listed", r->input[3], r->output[3],
            ROWS + me, 1, rows_of, TUTTI_INT32, n - 1, NULL, &r->requests[TENSORS + 3]);
    status[4] = tutti_reducescatter_async(r->t, "listed", r->input[4], r->output[4],
            sum, 1, rows_of, TUTTI_INT32, TUTTI_SUM, NULL, &r->requests[TENSORS + 4]);
}

static void begin_equal(struct trainer *r, tutti_status *status)
{
    const int n = tutti_size(r->t);

    status[5] = tutti_allgather_async(r->t, "equal", r->input[5], r->output[5], ROWS, 1,
            NULL, TUTTI_INT32, NULL, &r->requests[TENSORS + 5]);
    status[6] = tutti_alltoall_async(r->t, "equal", r->input[6], r->output[6],
            (int64_t)n * ROWS, 1, NULL, NULL, TUTTI_INT32, NULL,
            &r->requests[TENSORS + 6]);
    status[7] = tutti_reduce_async(r->t, "equal", r->input[7], r->output[7], ROWS,
            TUTTI_INT32, TUTTI_MAX, 0, NULL, &r->requests[TENSORS + 7]);
    status[8] = tutti_broadcast_async(r->t, "equal", r->output[8], ROWS, TUTTI_INT32, 0,
            NULL, &r->requests[TENSORS + 8]);
}

static void begin_exchanges(struct trainer *trainer)
{
    tutti_status status[EXCHANGES];

    begin_unequal(trainer, status);
    begin_equal(trainer, status);
    for (int i = 0; i < EXCHANGES; i++) {
        trainer->failed = trainer->failed || status[i] != TUTTI_OK;
    }
}

static int64_t elements_of(int k)
{
    return 1 + 5 * k % ELEMENTS;
}

static void register_all(struct trainer *trainer)
{
    char name[32];

    for (int k = 0; k < TENSORS; k++) {
        const tutti_tensor_desc desc = { .size = sizeof desc,
            .name = name,
            .collective = TUTTI_ALLREDUCE,
            .count = elements_of(k),
            .dtype = TUTTI_FLOAT32,
            .op = TUTTI_AVERAGE };

        (void)snprintf(name, sizeof name, "layer %d", k);
        trainer->failed = tutti_tensor_register(trainer->t, &desc, &trainer->ids[k]) !=
                        TUTTI_OK ||
                trainer->failed;
    }
}

static tutti_status begin(struct trainer *trainer, int k)
{
    float *gradient = trainer->gradients[k];
    char name[32];

    if (trainer->by_id) {
        return tutti_submit(trainer->t, trainer->ids[k], gradient, gradient,
                TUTTI_NO_STEP, NULL, NULL, &trainer->requests[k]);
    }
    (void)snprintf(name, sizeof name, "layer %d", k);
    return tutti_allreduce_async(trainer->t, name, gradient, gradient, elements_of(k),
            TUTTI_FLOAT32, TUTTI_AVERAGE, NULL, &trainer->requests[k]);
}

static void train(struct trainer *trainer, int steps)
{
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < TENSORS; i++) {
            /* Ranks go through the layers in different orders. */
            const int k = (i + 7 * tutti_rank(trainer->t)) % TENSORS;

            trainer->failed = begin(trainer, k) != TUTTI_OK || trainer->failed;
        }
        begin_exchanges(trainer);
        trainer->failed = tutti_wait_all(trainer->t, TENSORS + EXCHANGES,
                                  trainer->requests, TUTTI_FOREVER, NULL) != TUTTI_OK ||
                trainer->failed;
    }
}

static void *trainer_main(void *argument)
{
    struct trainer *trainer = argument;
    struct shared *shared = trainer->shared;
    uint64_t left = UINT64_MAX;

    register_all(trainer);
    train(trainer, WARM_UP_STEPS);
    for (int i = 0; i < TRIES && left > 0; i++) {
        uint64_t before;

        (void)pthread_barrier_wait(&shared->barrier);
        before = mem_alloc_count();
        (void)pthread_barrier_wait(&shared->barrier);
        train(trainer, STEPS);
        (void)pthread_barrier_wait(&shared->barrier);
        if (tutti_rank(trainer->t) == 0) {
            shared->allocations = mem_alloc_count() - before;
        }
        (void)pthread_barrier_wait(&shared->barrier);
        left = shared->allocations;
    }
    trainer->failed = tutti_finalize(trainer->t) != TUTTI_OK || trainer->failed;
    return NULL;
}

static void run_ranks(int n, int first_by_id)
{
    struct trainer *trainers = calloc((size_t)n, sizeof *trainers);
    tutti *contexts[RANKS_MAX];
    struct shared shared;

    assert_non_null(trainers);
    assert_int_equal(pthread_barrier_init(&shared.barrier, NULL, (unsigned)n), 0);
    ASSERT_OK(tutti_init_local(n, contexts, NULL));
    for (int r = 0; r < n; r++) {
        trainers[r].t = contexts[r];
        trainers[r].shared = &shared;
        trainers[r].by_id = r >= first_by_id;
        assert_int_equal(
                pthread_create(&trainers[r].thread, NULL, trainer_main, &trainers[r]),
                0);
    }
    for (int r = 0; r < n; r++) {
        assert_int_equal(pthread_join(trainers[r].thread, NULL), 0);
    }
    for (int r = 0; r < n; r++) {
        assert_false(trainers[r].failed);
    }
    assert_int_equal(shared.allocations, 0);
    (void)pthread_barrier_destroy(&shared.barrier);
    free(trainers);
}

UNIT_TEST(test_one_rank_allocates_nothing)
{
    run_ranks(1, 1);
    run_ranks(1, 0);
}

UNIT_TEST(test_two_ranks_allocate_nothing)
{
    run_ranks(2, 1);
    run_ranks(2, 0);
}

UNIT_TEST(test_five_ranks_allocate_nothing)
{
    run_ranks(RANKS_MAX, 2);
}
