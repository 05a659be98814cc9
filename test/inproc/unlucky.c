/*
 * Ranks in one process, over their shared memory, of which one is unlucky: its backend has written
 * another bit into a result, or does not go on. In a batch of several tensors and of a plan.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "api/setup.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_arrival_flags.h"
#include "run/start.h"
#include "test/unit/unit.h"
#include "transport/inproc.h"

enum {
    RANKS = 3,
    UNLUCKY = 2,
    TENSORS = 3,
    COUNT = 1000,
    STEPS = 40, /* by then there is a plan */
    WRONG_STEP = 30
};

/* The batch of the unlucky rank whose result changes, and its task; whoever drives that rank. */
static const struct op_batch *target;
static _Atomic(void *) target_task;
static _Atomic enum {
    NOTHING,
    OTHER_BIT,
    STANDSTILL
} is_armed;

static tutti_status start(void *state, void *task, const struct op_batch *batch)
{
    if (batch->set->rank == UNLUCKY && atomic_load(&is_armed) != NOTHING) {
        target = batch;
        atomic_store(&target_task, task);
    }
    return op_shm.start(state, task, batch);
}

static tutti_status step(void *state, void *task, bool *moved)
{
    tutti_status status;

    if (task == atomic_load(&target_task) && atomic_load(&is_armed) == STANDSTILL) {
        return TUTTI_AGAIN;
    }
    status = op_shm.step(state, task, moved);
    /* The middle tensor, wherever the runs of the batch are cut. */
    if (status == TUTTI_OK && task == atomic_load(&target_task) &&
            atomic_exchange(&is_armed, NOTHING) == OTHER_BIT) {
        size_t at = target->count / 2;
        size_t run = 0;

        while (at >= target->runs[run].count) {
            at -= target->runs[run++].count;
        }
        ((unsigned char *)target->runs[run].output)[at * sizeof(float)] ^= 1;
        atomic_store(&target_task, NULL);
    }
    return status;
}

struct stage {
    struct shm_domain *domain;
    struct op_backend backend;
    struct doorbell bells[RANKS];
    tutti *contexts[RANKS];
    pthread_barrier_t barrier;
    int luck; /* what is_armed becomes in the wrong step */
};

static void set_up(struct stage *stage)
{
    struct transport ends[RANKS];

    *stage = (struct stage){ .domain = shm_domain_create(RANKS), .backend = op_shm };
    stage->backend.start = start;
    stage->backend.step = step;
    assert_int_equal(pthread_barrier_init(&stage->barrier, NULL, RANKS), 0);
    assert_int_equal(transport_inproc_open(RANKS, stage->bells, ends), TUTTI_OK);
    for (int i = 0; i < RANKS; i++) {
        struct context_spec spec = { 0 };

        assert_int_equal(setup_begin(&spec, NULL, i), TUTTI_OK);
        spec.config.verify_results = 1;
        spec.config.stall_fail_s = 2;
        spec.rank = i;
        spec.size = RANKS;
        spec.transport = ends[i];
        spec.bell = &stage->bells[i];
        spec.any_thread = true;
        spec.arrival_flags = shm_arrival_flags(stage->domain);
        spec.natives[0] = stage->domain;
        spec.backends[0] = &stage->backend;
        spec.backend_count = 1;
        assert_true(nodes_add(&spec.nodes, 0, RANKS));
        assert_int_equal(context_create(&stage->contexts[i], &spec), TUTTI_OK);
    }
}

static tutti_status train_step(tutti *t, int step, float values[TENSORS][COUNT])
{
    static const char *const names[TENSORS] = { "first", "middle", "last" };
    tutti_request requests[TENSORS];

    for (int i = 0; i < TENSORS; i++) {
        tutti_options options;

        tutti_options_default(&options);
        options.step = step;
        for (int j = 0; j < COUNT; j++) {
            values[i][j] = (float)(tutti_rank(t) + i * j);
        }
        if (tutti_allreduce_async(t, names[i], values[i], values[i], COUNT,
                    TUTTI_FLOAT32, TUTTI_SUM, &options, &requests[i]) != TUTTI_OK) {
            return TUTTI_ERR_CONTEXT_FAILED;
        }
    }
    return tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL);
}

struct rank {
    struct stage *stage;
    tutti *t;
    pthread_t thread;
    tutti_status status; /* of the last step */
    char text[1024];
    tutti_status counted;
    tutti_stats stats;
};

static void *train(void *arg)
{
    struct rank *rank = arg;
    float values[TENSORS][COUNT];

    for (int s = 0; s < STEPS && rank->status == TUTTI_OK; s++) {
        (void)pthread_barrier_wait(&rank->stage->barrier);
        if (s == WRONG_STEP) {
            atomic_store(&is_armed, rank->stage->luck);
        }
        rank->status = train_step(rank->t, s, values);
        if (rank->stage->luck != NOTHING && s == WRONG_STEP) {
            break; /* the others may have seen it already, and come no more */
        }
    }
    for (int s = STEPS;
            rank->stage->luck != NOTHING && rank->status == TUTTI_OK && s < 2 * STEPS;
            s++) {
        rank->status = train_step(rank->t, s, values);
    }
    (void)snprintf(rank->text, sizeof rank->text, "%s", tutti_last_error());
    rank->stats.size = sizeof rank->stats;
    rank->counted = tutti_stats_get(rank->t, &rank->stats);
    (void)tutti_finalize(rank->t);
    return NULL;
}

static void run(struct rank ranks[RANKS], int luck)
{
    struct stage stage;

    set_up(&stage);
    stage.luck = luck;
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){ .stage = &stage, .t = stage.contexts[i] };
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, train, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    }
    shm_domain_destroy(stage.domain);
    (void)pthread_barrier_destroy(&stage.barrier);
}

UNIT_TEST(equal_results_pass)
{
    struct rank ranks[RANKS];

    run(ranks, NOTHING);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, TUTTI_OK);
        assert_int_equal(ranks[i].counted, TUTTI_OK);
        assert_true(ranks[i].stats.planned_steps > 0);
        assert_int_equal(ranks[i].stats.verified, ranks[i].stats.batches);
    }
}

UNIT_TEST(a_result_of_one_rank_differs)
{
    struct rank ranks[RANKS];

    run(ranks, OTHER_BIT);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, TUTTI_ERR_CONTEXT_FAILED);
        assert_non_null(strstr(ranks[i].text,
                "on rank 0: silent corruption: rank 2 got another result of allreduce "
                "\"middle\" of step 30 than ranks 0-1; "));
    }
}

UNIT_TEST(a_batch_stands_still)
{
    struct rank ranks[RANKS];

    run(ranks, STANDSTILL);
    atomic_store(&is_armed, NOTHING);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, TUTTI_ERR_CONTEXT_FAILED);
        assert_non_null(strstr(ranks[i].text, "stall_fail_s = 2: allreduce \""));
        assert_non_null(strstr(ranks[i].text,
                "\" of step 30 and 2 more, which all ranks have submitted"));
    }
}
