/*
 * A reducer's steps: averages, marks, waits and callbacks, and what is refused.
 */
#include <pthread.h>
#include <string.h>

#include <tutti/trainer.h>

#include "model.h"
#include "ranks.h"
#include "reducer/gradient.h"
#include "test/unit/unit.h"

enum {
    STEPS = 12
};

static tutti_reducer *make(tutti *t, const tutti_reducer_options *options)
{
    tutti_param params[MODEL_PARAMS];
    tutti_reducer *reducer = NULL;

    model_params(params);
    (void)CHECK(tutti_reducer_create(t, params, MODEL_PARAMS, options, &reducer) ==
            TUTTI_OK);
    return reducer;
}

static void mark(tutti_reducer *reducer, tutti *t, int param)
{
    model_fill(reducer, tutti_size(t), tutti_rank(t), param);
    (void)CHECK(tutti_reducer_ready(reducer, (size_t)param) == TUTTI_OK);
}

/* Ranks mark in different orders, and average a loss. */
static void wait_for_steps(tutti *t, void *user)
{
    tutti_reducer *reducer = make(t, NULL);

    (void)user;
    for (int64_t step = 0; step < STEPS; step++) {
        double loss = tutti_rank(t) + (double)step;

        for (int p = 0; p < MODEL_PARAMS; p++) {
            mark(reducer, t, (p * 3 + tutti_rank(t) + (int)step) % MODEL_PARAMS);
        }
        (void)CHECK(tutti_reducer_average(reducer, "loss", &loss) == TUTTI_OK);
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        (void)CHECK(model_all_wrong(reducer, tutti_size(t), step) == 0);
        (void)CHECK(loss == (tutti_size(t) - 1) / 2.0 + (double)step);
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

UNIT_TEST(test_every_step_averages_over_the_ranks)
{
    for (int n = 1; n <= 5; n += 2) {
        assert_int_equal(ranks_run(n, wait_for_steps, NULL), 0);
    }
}

struct called {
    tutti *t;
    tutti_reducer *reducer;
    double loss;
    int64_t steps;
    pthread_mutex_t lock;
    pthread_cond_t done;
};

/* Checks a step and begins the next, on the thread of the engine. */
static void begin_step(struct called *called)
{
    called->loss = tutti_rank(called->t);
    (void)CHECK(
            tutti_reducer_average(called->reducer, "loss", &called->loss) == TUTTI_OK);
    for (int p = MODEL_PARAMS; p-- > 0;) {
        mark(called->reducer, called->t, p);
    }
}

static void step_done(void *user, tutti_status status, const char *message)
{
    struct called *called = user;
    const int size = tutti_size(called->t);
    bool last;

    (void)CHECK(status == TUTTI_OK && message[0] == '\0');
    (void)CHECK(model_all_wrong(called->reducer, size, called->steps) == 0);
    (void)CHECK(called->loss == (size - 1) / 2.0);
    (void)pthread_mutex_lock(&called->lock);
    last = ++called->steps == STEPS;
    (void)pthread_cond_signal(&called->done);
    (void)pthread_mutex_unlock(&called->lock);
    if (!last) {
        begin_step(called);
    }
}

ON_RANKS(test_a_callback_ends_each_step_and_begins_the_next, 1, 3)
{
    struct called called = { .t = t,
        .reducer = make(t, NULL),
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .done = PTHREAD_COND_INITIALIZER };

    (void)CHECK(
            tutti_reducer_set_callback(called.reducer, step_done, &called) == TUTTI_OK);
    begin_step(&called);
    (void)CHECK(tutti_reducer_wait(called.reducer, NULL) == TUTTI_ERR_INVALID);
    (void)pthread_mutex_lock(&called.lock);
    while (called.steps < STEPS) {
        (void)pthread_cond_wait(&called.done, &called.lock);
    }
    (void)pthread_mutex_unlock(&called.lock);
    (void)CHECK(tutti_reducer_destroy(called.reducer) == TUTTI_OK);
}

/* Four threads mark a parameter each. */
static void *mark_one(void *user)
{
    struct gradient_of {
        tutti_reducer *reducer;
        int param;
    } *mine = user;

    (void)CHECK(tutti_reducer_ready(mine->reducer, (size_t)mine->param) == TUTTI_OK);
    return NULL;
}

ON_RANKS(test_threads_mark_different_parameters, 2)
{
    tutti_reducer *reducer = make(t, NULL);
    struct gradient_of {
        tutti_reducer *reducer;
        int param;
    } mine[MODEL_PARAMS];
    pthread_t threads[MODEL_PARAMS];

    for (int64_t step = 0; step < STEPS; step++) {
        for (int p = 0; p < MODEL_PARAMS; p++) {
            mine[p].reducer = reducer;
            mine[p].param = p;
            model_fill(reducer, tutti_size(t), tutti_rank(t), p);
            (void)CHECK(pthread_create(&threads[p], NULL, mark_one, &mine[p]) == 0);
        }
        for (int p = 0; p < MODEL_PARAMS; p++) {
            (void)pthread_join(threads[p], NULL);
        }
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        (void)CHECK(model_all_wrong(reducer, tutti_size(t), step) == 0);
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* What a call out of order is told, and that it changed nothing. */
ON_RANKS(test_calls_out_of_order_are_refused_and_change_nothing, 2)
{
    tutti_reducer *reducer = make(t, NULL);
    double loss = 1;

    for (int p = 1; p < MODEL_PARAMS; p++) {
        mark(reducer, t, p);
    }
    (void)CHECK(tutti_reducer_ready(reducer, 1) == TUTTI_ERR_INVALID);
    (void)CHECK(
            strstr(tutti_last_error(), "\"weights\" (parameter 1) of step 0") != NULL);
    (void)CHECK(tutti_reducer_ready(reducer, MODEL_PARAMS) == TUTTI_ERR_INVALID);
    (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(),
                        "\"scale\" (parameter 0) has 0 of 1 marks") != NULL);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_ERR_INVALID);
    (void)CHECK(
            tutti_reducer_set_callback(reducer, step_done, NULL) == TUTTI_ERR_INVALID);
    (void)CHECK(tutti_reducer_join(reducer, NULL) == TUTTI_ERR_INVALID);
    (void)CHECK(tutti_reducer_average(reducer, "loss", &loss) == TUTTI_OK);
    (void)CHECK(tutti_reducer_average(reducer, "loss", &loss) == TUTTI_ERR_DUPLICATE);
    mark(reducer, t, 0);
    (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
    (void)CHECK(model_all_wrong(reducer, tutti_size(t), 0) == 0);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* Rank 1 is a step ahead, as after a step that it skipped alone. */
static void differ_in_step(tutti *t, void *user)
{
    const bool *unused = user;
    tutti_reducer_options options;
    tutti_reducer *reducer;

    tutti_reducer_options_default(&options);
    options.unused = *unused;
    reducer = make(t, &options);
    reducer->step += tutti_rank(t) == 1;
    for (int p = 0; p < MODEL_PARAMS; p++) {
        if (!*unused || p != tutti_rank(t)) { /* no two have the same in flight */
            mark(reducer, t, p);
        }
    }
    (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_ERR_MISMATCH);
    (void)CHECK(strstr(tutti_last_error(), *unused ? ":used" : "gradient.") != NULL);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

UNIT_TEST(test_ranks_in_different_steps_fail_and_never_pair)
{
    bool unused = false;

    assert_int_equal(ranks_run(3, differ_in_step, &unused), 0);
    unused = true;
    assert_int_equal(ranks_run(3, differ_in_step, &unused), 0);
}

/* The job breaks while gradients are marked: the step can be ended, and the reducer freed. */
ON_RANKS(test_a_step_ends_when_the_job_breaks_in_it, 2)
{
    tutti_reducer *reducer = make(t, NULL);

    mark(reducer, t, 3);
    if (tutti_barrier(t, "all have marked", NULL) == TUTTI_OK && tutti_rank(t) == 1) {
        (void)tutti_abort(t, "no more samples");
    }
    while (tutti_barrier(t, "until this rank knows", NULL) == TUTTI_OK) {
    }
    (void)CHECK(tutti_reducer_ready(reducer, 1) == TUTTI_ERR_CONTEXT_FAILED);
    (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_ERR_CONTEXT_FAILED);
    (void)CHECK(strstr(tutti_last_error(), "no more samples") != NULL);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* Rank r has r + 2 steps of data. */
ON_RANKS(test_ranks_that_joined_are_left_out_of_the_average, 2)
{
    const int size = tutti_size(t);
    tutti_reducer_options options;
    tutti_reducer *reducer;
    int last = -1;

    tutti_reducer_options_default(&options);
    options.uneven = true;
    options.clip_norm = 1e9; /* looked at without the ranks that have joined */
    reducer = make(t, &options);
    for (int64_t step = 0; step < tutti_rank(t) + 2; step++) {
        const int from = step < 2 ? 0 : (int)step - 1; /* ranks still there */
        float expected = 0;

        for (int p = 0; p < MODEL_PARAMS; p++) {
            mark(reducer, t, p);
        }
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        for (int r = from; r < size; r++) {
            expected += model_gradient(size, r, step, 1, 3) / (float)(size - from);
        }
        (void)CHECK(((float *)tutti_reducer_gradient(reducer, 1))[3] == expected);
    }
    (void)CHECK(tutti_reducer_join(reducer, &last) == TUTTI_OK);
    (void)CHECK(last == size - 1);
    (void)CHECK(tutti_reducer_step(reducer) == size + 1);
    for (int p = 0; p < MODEL_PARAMS; p++) {
        mark(reducer, t, p);
    }
    (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
    (void)CHECK(model_all_wrong(reducer, size, size + 1) == 0);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}
