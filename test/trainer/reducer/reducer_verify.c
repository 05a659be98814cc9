/*
 * Bits that only one rank has: a reducer with verify_results names the rank, the step and the
 * parameter, on all ranks.
 */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "model.h"
#include "ranks.h"
#include "reducer/reducer.h"
#include "test/unit/unit.h"

enum {
    STEPS = 10
};

/** What goes wrong where, and when it is found; no rank: nothing is. */
struct scenario {
    int ranks, odd; /* of the world                                           */
    int every; /* -1: the environment says 1                               */
    int64_t wrong, found; /* steps; the latter beyond the last: never               */
    bool calls; /* the step ends with a callback                            */
    bool updates, sharded; /* a sink has the gradients, or this rank's part of them  */
    bool joins; /* rank 0 has no data                                       */
    bool set; /* ranks 1 to n alone reduce                                */
    const char *text; /* on all ranks that reduce                               */
};

struct wrong_rank {
    const struct scenario *scenario;
    tutti *t;
    tutti_reducer *reducer;
    tutti_compressor sums;
    float *values[MODEL_PARAMS];
    sem_t ended; /* a step, by its callback */
    tutti_status status; /* of the last */
    char text[512];
};

static void flip(float *value)
{
    uint32_t bits;

    memcpy(&bits, value, sizeof bits);
    bits ^= 1;
    memcpy(value, &bits, sizeof bits);
}

/* ------------------------- a compressor that sums, and flips a bit of one rank */

static tutti_status open_sum(const tutti_compressor_info *info, void **state)
{
    tutti_compressor_info *copy = malloc(sizeof *copy);

    if (copy == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    *copy = *info;
    *state = copy;
    return TUTTI_OK;
}

static tutti_status sum_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    const tutti_compressor_info *info = state;
    const struct wrong_rank *rank = info->settings;
    const struct scenario *scenario = rank->scenario;

    if (stage > 0) {
        if (tutti_rank(rank->t) == scenario->odd &&
                tutti_reducer_step(rank->reducer) == scenario->wrong) {
            flip(&gradient[info->count - 1]);
        }
        return TUTTI_OK;
    }
    next->input = gradient;
    next->output = gradient;
    next->count = info->count;
    next->row_count = 1;
    next->dtype = TUTTI_FLOAT32;
    next->collective = TUTTI_ALLREDUCE;
    return TUTTI_AGAIN;
}

/* ------------------------------- a sink that flips a bit when values are there */

static tutti_status begin_updates(void *user, const tutti_step_report *report)
{
    (void)user;
    (void)report;
    return TUTTI_OK;
}

static void update(void *user, size_t param, int64_t first, int64_t count,
        const void *gradient, double scale)
{
    struct wrong_rank *rank = user;

    (void)scale;
    memcpy(rank->values[param] + first, gradient, (size_t)count * sizeof(float));
}

static tutti_status end_updates(void *user)
{
    struct wrong_rank *rank = user;

    if (tutti_rank(rank->t) == rank->scenario->odd &&
            tutti_reducer_step(rank->reducer) == rank->scenario->wrong) {
        flip(rank->values[1]);
    }
    return TUTTI_OK;
}

/* -------------------------------------------------------------------- the job */

static void step_ended(void *user, tutti_status status, const char *message)
{
    struct wrong_rank *rank = user;

    rank->status = status;
    (void)snprintf(rank->text, sizeof rank->text, "%s", message);
    (void)sem_post(&rank->ended);
}

static tutti_process_set choose_set(const struct wrong_rank *rank)
{
    static const int members[] = { 3, 1, 2 };
    tutti_process_set set = TUTTI_WORLD;

    if (rank->scenario->set) {
        (void)CHECK(tutti_process_set_create(rank->t, members, 3, &set) == TUTTI_OK);
    }
    return set;
}

static void open_reducer(struct wrong_rank *rank, tutti_process_set set)
{
    tutti_param params[MODEL_PARAMS];
    tutti_reducer_options options;

    rank->sums = (tutti_compressor){ .size = sizeof rank->sums,
        .name = "sums",
        .settings = rank,
        .open = open_sum,
        .stage = sum_stage,
        .close = free };
    model_params(params);
    params[1].compressor = rank->scenario->updates ? NULL : &rank->sums;
    for (int p = 0; p < MODEL_PARAMS; p++) {
        rank->values[p] = calloc((size_t)model_counts[p], sizeof(float));
        params[p].value = rank->values[p];
    }
    tutti_reducer_options_default(&options);
    options.process_set = set;
    options.verify_results = rank->scenario->every;
    options.uneven = rank->scenario->joins;
    (void)CHECK(tutti_reducer_create(rank->t, params, MODEL_PARAMS, &options,
                        &rank->reducer) == TUTTI_OK);
    if (rank->scenario->calls) {
        (void)CHECK(tutti_reducer_set_callback(rank->reducer, step_ended, rank) ==
                TUTTI_OK);
    }
}

static void take_step(struct wrong_rank *rank)
{
    const struct scenario *scenario = rank->scenario;

    for (int p = MODEL_PARAMS; p-- > 0;) {
        model_fill(rank->reducer, scenario->ranks, tutti_rank(rank->t), p);
        (void)CHECK(tutti_reducer_ready(rank->reducer, (size_t)p) == TUTTI_OK);
    }
    if (scenario->calls) {
        (void)CHECK(sem_wait(&rank->ended) == 0);
        return;
    }
    rank->status = tutti_reducer_wait(rank->reducer, NULL);
    (void)snprintf(rank->text, sizeof rank->text, "%s", tutti_last_error());
}

static void train(struct wrong_rank *rank)
{
    const struct scenario *scenario = rank->scenario;

    for (int64_t step = 0; step < STEPS; step++) {
        take_step(rank);
        if (step < scenario->found) {
            (void)CHECK(rank->status == TUTTI_OK);
        } else if (step == scenario->found) {
            if (!CHECK(rank->status == TUTTI_ERR_MISMATCH &&
                        strstr(rank->text, scenario->text) != NULL)) {
                (void)fprintf(stderr, "%s\n", rank->text);
            }
        } else {
            (void)CHECK(rank->status == TUTTI_OK); /* the job may go on */
        }
    }
}

static void run_rank(tutti *t, void *user)
{
    struct wrong_rank rank = { .scenario = user, .t = t };
    const struct scenario *scenario = rank.scenario;
    const tutti_process_set set = choose_set(&rank);
    const struct reducer_sink sink = { .sharded = scenario->sharded,
        .begin = begin_updates,
        .update = update,
        .end = end_updates,
        .user = &rank };

    if (scenario->set && tutti_rank(t) == 0) {
        return;
    }
    (void)sem_init(&rank.ended, 0, 0);
    open_reducer(&rank, set);
    if (scenario->updates) {
        (void)CHECK(reducer_set_sink(rank.reducer, &sink) == TUTTI_OK);
    }
    if (!scenario->joins || tutti_rank(t) != 0) {
        train(&rank);
    }
    if (scenario->joins) {
        (void)CHECK(tutti_reducer_join(rank.reducer, NULL) == TUTTI_OK);
    }
    (void)CHECK(!scenario->updates || reducer_set_sink(rank.reducer, NULL) == TUTTI_OK);
    (void)CHECK(tutti_reducer_destroy(rank.reducer) == TUTTI_OK);
    for (int p = 0; p < MODEL_PARAMS; p++) {
        free(rank.values[p]);
    }
    (void)sem_destroy(&rank.ended);
}

static void play(struct scenario scenario)
{
    assert_int_equal(ranks_run(scenario.ranks, run_rank, &scenario), 0);
}

static const char of_gradient[] =
        "silent corruption, found after step 6: gradient \"weights\" on rank 2 is not "
        "what 2 of 3 ranks have; ";
static const char of_parameter[] =
        "silent corruption, found after step 6: parameter \"weights\" on rank 2 is not "
        "what 2 of 3 ranks have; ";

UNIT_TEST(test_a_gradient_of_one_rank)
{
    struct scenario scenario = {
        .ranks = 3, .odd = 2, .every = 1, .wrong = 6, .found = 6, .text = of_gradient
    };

    play(scenario);
    scenario.calls = true;
    play(scenario);
    scenario.every = -1;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet */
    (void)setenv("TUTTI_VERIFY_RESULTS", "1", 1);
    play(scenario);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): again */
    (void)unsetenv("TUTTI_VERIFY_RESULTS");
    scenario.found = STEPS;
    play(scenario);
}

UNIT_TEST(test_only_steps_that_are_compared)
{
    play((struct scenario){
            .ranks = 3, .odd = 2, .every = 3, .wrong = 5, .found = STEPS });
}

UNIT_TEST(test_two_ranks_do_not_know_who_is_wrong)
{
    play((struct scenario){ .ranks = 2,
            .odd = 0,
            .every = 2,
            .wrong = 6,
            .found = 6,
            .text = "gradient \"weights\" on rank 1 is not what 1 of 2 "
                    "ranks have; " });
}

UNIT_TEST(test_ranks_of_a_set_by_their_world_ranks)
{
    play((struct scenario){ .ranks = 4,
            .odd = 2,
            .every = 1,
            .wrong = 6,
            .found = 6,
            .set = true,
            .text = of_gradient });
}

UNIT_TEST(test_a_parameter_of_one_rank)
{
    struct scenario scenario = { .ranks = 3,
        .odd = 2,
        .every = 3,
        .wrong = 6,
        .found = 6,
        .updates = true,
        .text = of_parameter };

    play(scenario);
    scenario.sharded = true;
    play(scenario);
}

UNIT_TEST(test_without_ranks_that_have_joined)
{
    play((struct scenario){ .ranks = 4,
            .odd = 2,
            .every = 3,
            .wrong = 6,
            .found = 6,
            .updates = true,
            .joins = true,
            .text = of_parameter });
}
