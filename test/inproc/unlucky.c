/*
 * Ranks in one process, over their shared memory, of which one is unlucky: its backend does not go
 * on with a batch of several tensors. All are told of it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "api/setup.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_board.h"
#include "run/start.h"
#include "test/unit/unit.h"
#include "transport/inproc.h"

enum {
    RANKS = 3,
    UNLUCKY = 2,
    TENSORS = 3,
    COUNT = 1000,
    WRONG_STEP = 30 /* by then the tensors have numbers */
};

/* The task of the unlucky rank that stands still; whoever drives that rank. */
static _Atomic(void *) target_task;
static atomic_bool is_armed;

static tutti_status start(void *state, void *task, const struct op_batch *batch)
{
    if (batch->set->rank == UNLUCKY && atomic_load(&is_armed)) {
        atomic_store(&target_task, task);
    }
    return op_shm.start(state, task, batch);
}

static tutti_status step(void *state, void *task, bool *moved)
{
    if (task == atomic_load(&target_task) && atomic_load(&is_armed)) {
        return TUTTI_AGAIN;
    }
    return op_shm.step(state, task, moved);
}

struct stage {
    struct shm_domain *domain;
    struct op_backend backend;
    struct doorbell bells[RANKS];
    tutti *contexts[RANKS];
    pthread_barrier_t barrier;
};

static void set_up(struct stage *stage)
{
    struct transport ends[RANKS];

    *stage = (struct stage){ .domain = shm_domain_create(RANKS), .backend = op_shm };
    stage->backend.start = start;
    stage->backend.step = step;
    assert_int_equal(pthread_barrier_init(&stage->barrier, NULL, RANKS), 0);
    ASSERT_OK(transport_inproc_open(RANKS, stage->bells, ends));
    for (int i = 0; i < RANKS; i++) {
        struct context_spec spec = { 0 };

        ASSERT_OK(setup_begin(&spec, NULL, i));
        spec.config.stall_fail_s = 2;
        spec.rank = i;
        spec.size = RANKS;
        spec.transport = ends[i];
        spec.bell = &stage->bells[i];
        spec.any_thread = true;
        spec.board = shm_board(stage->domain);
        spec.natives[0] = stage->domain;
        spec.backends[0] = &stage->backend;
        spec.backend_count = 1;
        assert_true(nodes_add(&spec.nodes, 0, RANKS));
        ASSERT_OK(context_create(&stage->contexts[i], &spec));
    }
}

/* A group, so that the tensors are one batch however late a rank submits them. */
static tutti_status train_step(tutti *t, int step, float values[TENSORS][COUNT])
{
    static const char *const names[TENSORS] = { "first", "middle", "last" };
    tutti_request requests[TENSORS];

    if (tutti_group_begin(t) != TUTTI_OK) {
        return TUTTI_ERR_CONTEXT_FAILED;
    }
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
    if (tutti_group_end(t) != TUTTI_OK) {
        return TUTTI_ERR_CONTEXT_FAILED;
    }
    return tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL);
}

struct rank {
    struct stage *stage;
    tutti *t;
    pthread_t thread;
    tutti_status status; /* of the last step */
    char text[1024];
};

static void *train(void *arg)
{
    struct rank *rank = arg;
    float values[TENSORS][COUNT];

    for (int s = 0; s <= WRONG_STEP && rank->status == TUTTI_OK; s++) {
        (void)pthread_barrier_wait(&rank->stage->barrier);
        if (s == WRONG_STEP) {
            atomic_store(&is_armed, true);
        }
        rank->status = train_step(rank->t, s, values);
    }
    (void)snprintf(rank->text, sizeof rank->text, "%s", tutti_last_error());
    (void)tutti_finalize(rank->t);
    return NULL;
}

UNIT_TEST(a_batch_stands_still)
{
    struct rank ranks[RANKS];
    struct stage stage;

    set_up(&stage);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){ .stage = &stage, .t = stage.contexts[i] };
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, train, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, TUTTI_ERR_CONTEXT_FAILED);
        assert_non_null(strstr(ranks[i].text, "stall_fail_s = 2: allreduce \""));
        assert_non_null(strstr(ranks[i].text,
                "\" of step 30 and 2 more, which all ranks have submitted"));
    }
    shm_domain_destroy(stage.domain);
    (void)pthread_barrier_destroy(&stage.barrier);
}
