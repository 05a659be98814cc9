/*
 * What stands between the marks and the caller: compressors of several stages, and a sink with
 * gathered values.
 */
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "model.h"
#include "ranks.h"
#include "reducer/reducer.h"
#include "test/unit/unit.h"

enum {
    STEPS = 6
};

/** A compressor that gathers all gradients and then sums two halves of the mean. */
struct gathering {
    float *all, *half;
    int64_t count;
    int ranks, rank;
};

static tutti_status open_gathering(const tutti_compressor_info *info, void **state)
{
    struct gathering *gathering = calloc(1, sizeof *gathering);

    (void)CHECK(gathering != NULL && info->ndim == 1 && info->dims[0] == info->count);
    gathering->all = calloc((size_t)(info->count * info->ranks), sizeof(float));
    gathering->half = calloc((size_t)info->count, sizeof(float));
    gathering->count = info->count;
    gathering->ranks = info->ranks;
    gathering->rank = info->rank;
    *state = gathering;
    return TUTTI_OK;
}

static void close_gathering(void *state)
{
    struct gathering *gathering = state;

    free(gathering->all);
    free(gathering->half);
    free(gathering);
}

static tutti_status stage_gathering(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct gathering *gathering = state;

    next->dtype = TUTTI_FLOAT32;
    next->count = gathering->count;
    next->row_count = 1;
    if (stage == 0) {
        next->collective = TUTTI_ALLGATHER;
        next->input = gradient;
        next->output = gathering->all;
        next->error_squared = 9;
        next->norm_squared = 16;
        return TUTTI_AGAIN;
    }
    if (stage == 1) {
        for (int64_t i = 0; i < gathering->count; i++) {
            float sum = 0;

            for (int r = 0; r < gathering->ranks; r++) {
                sum += gathering->all[r * gathering->count + i];
            }
            gathering->half[i] = sum / (float)(gathering->ranks * gathering->ranks);
        }
        next->collective = TUTTI_ALLREDUCE;
        next->input = gathering->half;
        next->output = gathering->half;
        return TUTTI_AGAIN;
    }
    memcpy(gradient, gathering->half, (size_t)gathering->count * sizeof *gradient);
    return TUTTI_OK;
}

static const tutti_compressor gathering = {
    .size = sizeof gathering,
    .name = "gathering",
    .open = open_gathering,
    .stage = stage_gathering,
    .close = close_gathering,
};

/* A callback may mark gradients: from within a mark it would do so for ever. */
static _Thread_local bool is_marking;

static void step_done(void *user, tutti_status status, const char *message)
{
    (void)message;
    (void)CHECK(!is_marking);
    *(_Atomic int *)user = status == TUTTI_OK ? 1 : -1;
}

/* A mean of multiples of n^2 is exact on the way too. */
static void fill(tutti_reducer *reducer, tutti *t, int param)
{
    float *gradient = tutti_reducer_gradient(reducer, (size_t)param);

    model_fill(reducer, tutti_size(t), tutti_rank(t), param);
    for (int64_t i = 0; i < model_counts[param]; i++) {
        gradient[i] *= (float)tutti_size(t);
    }
}

static void compress(tutti *t, void *user)
{
    const bool *calls = user;
    const int size = tutti_size(t);
    tutti_step_report report = { .size = sizeof report };
    tutti_param params[MODEL_PARAMS];
    tutti_reducer *reducer = NULL;
    _Atomic int done;

    model_params(params);
    params[1].compressor = &gathering;
    params[3].compressor = &gathering;
    for (int p = 0; *calls && size == 1 && p < MODEL_PARAMS; p++) {
        params[p].compressor = tutti_compress_bf16(); /* none has anything to send */
    }
    (void)CHECK(
            tutti_reducer_create(t, params, MODEL_PARAMS, NULL, &reducer) == TUTTI_OK);
    if (*calls) {
        (void)CHECK(tutti_reducer_set_callback(reducer, step_done, &done) == TUTTI_OK);
    }
    for (int64_t step = 0; step < STEPS; step++) {
        done = 0;
        for (int p = MODEL_PARAMS; p-- > 0;) {
            fill(reducer, t, p);
            is_marking = true;
            (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
            is_marking = false;
        }
        while (*calls && done == 0) {
            tutti_request none = TUTTI_REQUEST_NULL;

            (void)CHECK(tutti_test(t, &none) == TUTTI_OK);
        }
        if (!*calls) {
            (void)CHECK(tutti_reducer_wait(reducer, &report) == TUTTI_OK);
            (void)CHECK(report.sent_bytes == 4 * (1 + 2 * 1000 + 7 + 2 * 4099));
            (void)CHECK(report.gradient_bytes == 4 * (1 + 1000 + 7 + 4099));
            (void)CHECK(report.compression_error == 0.75);
        }
        for (int p = 0; p < MODEL_PARAMS; p++) {
            (void)CHECK(model_wrong(reducer, size, step, p, (float)size) == 0);
        }
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

UNIT_TEST(test_a_compressor_goes_through_its_stages)
{
    bool calls = false;

    assert_int_equal(ranks_run(1, compress, &calls), 0);
    assert_int_equal(ranks_run(3, compress, &calls), 0);
    calls = true;
    assert_int_equal(ranks_run(1, compress, &calls), 0);
    assert_int_equal(ranks_run(2, compress, &calls), 0);
}

/* Sums as many elements as the rank has. */
static tutti_status stage_unequal(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct gathering *of = state;

    next->dtype = TUTTI_FLOAT32;
    next->collective = TUTTI_ALLREDUCE;
    next->count = of->rank + 1;
    next->row_count = 1;
    next->input = gradient;
    next->output = gradient;
    return stage == 0 ? TUTTI_AGAIN : TUTTI_OK;
}

static const tutti_compressor unequal = {
    .size = sizeof unequal,
    .name = "unequal",
    .open = open_gathering,
    .stage = stage_unequal,
    .close = close_gathering,
};

/* The ranks differ in one gradient and mark in different orders: the others go through their stages. */
ON_RANKS(test_an_error_of_one_gradient_leaves_no_other_between_its_stages, 3)
{
    tutti_param params[MODEL_PARAMS];
    tutti_reducer *reducer = NULL;

    model_params(params);
    params[1].compressor = &gathering;
    params[3].compressor = &gathering;
    params[2].compressor = &unequal;
    (void)CHECK(
            tutti_reducer_create(t, params, MODEL_PARAMS, NULL, &reducer) == TUTTI_OK);
    for (int k = 0; k < MODEL_PARAMS; k++) {
        const int p = (k + 1 + tutti_rank(t)) % MODEL_PARAMS;

        fill(reducer, t, p);
        (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
    }
    (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_ERR_MISMATCH);
    (void)CHECK(model_wrong(reducer, tutti_size(t), 0, 3, (float)tutti_size(t)) == 0);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/*
 * An operation of the program on rank 0 has the name that the last mark of "w" needs: the mark is
 * refused, and repeated when that operation has ended, which waits for the other rank.
 */
static void submit_clash(tutti *t, bool shards, float *mine, tutti_request *request)
{
    (void)CHECK((shards ? tutti_allreduce_async(t, "gradient.w", mine, mine, 1,
                                  TUTTI_FLOAT32, TUTTI_SUM, NULL, request)
                        : tutti_allgather_async(t, "gradient:0.w", mine, mine + 1, 1, 1,
                                  NULL, TUTTI_FLOAT32, NULL, request)) == TUTTI_OK);
}

static void repeat_mark(tutti *t, void *user)
{
    const bool *shards = user;
    tutti_param params[] = {
        { .name = "w", .count = 8, .dtype = TUTTI_FLOAT32 },
        { .name = "w.1", .count = 8, .dtype = TUTTI_FLOAT32 }, /* not a stage of "w" */
    };
    tutti_step_report report = { .size = sizeof report };
    tutti_reducer_options options;
    tutti_reducer *reducer = NULL;
    tutti_request request;
    float *gradient;
    float mine[3] = { 1 };
    int marks = 2;

    tutti_reducer_options_default(&options);
    options.shards = *shards ? 4 * tutti_size(t) : 0;
    options.accumulate = *shards ? 1 : 2;
    params[0].compressor = *shards ? NULL : &gathering;
    (void)CHECK(tutti_reducer_create(t, params, 2, &options, &reducer) == TUTTI_OK);
    if (*shards) {
        tutti_reducer_shards(reducer, NULL, &marks);
    }
    gradient = tutti_reducer_gradient(reducer, 0);
    if (tutti_rank(t) == 0) {
        submit_clash(t, *shards, mine, &request);
    }
    for (int pass = 1; pass <= marks; pass++) {
        for (int64_t i = 0; i < 8; i++) {
            gradient[i] += 4;
        }
        (void)CHECK(tutti_reducer_ready(reducer, 1) == TUTTI_OK);
        if (pass < marks || tutti_rank(t) == 0) {
            (void)CHECK(tutti_reducer_ready(reducer, 0) ==
                    (pass < marks ? TUTTI_OK : TUTTI_ERR_DUPLICATE));
        }
    }
    (void)CHECK(tutti_barrier(t, "rank 0 was refused", NULL) == TUTTI_OK);
    if (tutti_rank(t) != 0) {
        submit_clash(t, *shards, mine, &request);
    }
    (void)CHECK(tutti_wait(t, &request, TUTTI_FOREVER) == TUTTI_OK);
    (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_OK);
    (void)CHECK(tutti_reducer_wait(reducer, &report) == TUTTI_OK);
    (void)CHECK(gradient[0] == 4 && gradient[7] == 4);
    (void)CHECK(*shards || report.sent_bytes == 8 * 4 * 3);
    (void)CHECK(*shards || report.compression_error == 0.75);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

UNIT_TEST(test_a_mark_that_was_refused_may_be_repeated)
{
    bool shards = false;

    assert_int_equal(ranks_run(2, repeat_mark, &shards), 0);
    shards = true;
    assert_int_equal(ranks_run(2, repeat_mark, &shards), 0);
}

/** A sink that subtracts gradients; rank-local memory shows who updated what. */
struct subtracting {
    tutti_reducer *reducer;
    int64_t updated; /* elements */
    int begun, ended;
};

static tutti_status begin(void *user, const tutti_step_report *report)
{
    struct subtracting *subtracting = user;

    (void)CHECK(report->step == tutti_reducer_step(subtracting->reducer));
    subtracting->begun++;
    return TUTTI_OK;
}

static void update(void *user, size_t param, int64_t first, int64_t count,
        const void *gradient, double scale)
{
    struct subtracting *subtracting = user;
    float *value = reducer_param(subtracting->reducer, param)->value;
    const float *from = gradient;

    for (int64_t i = 0; i < count; i++) {
        value[first + i] -= from[i] * (float)scale;
    }
    subtracting->updated += count;
}

static tutti_status end(void *user)
{
    ((struct subtracting *)user)->ended++;
    return TUTTI_OK;
}

struct sink_case {
    bool sharded, late;
    double clip_norm;
};

static void sink(tutti *t, void *user)
{
    const struct sink_case *now = user;
    const int size = tutti_size(t);
    struct subtracting subtracting = { .updated = 0 };
    const struct reducer_sink takes = { .sharded = now->sharded,
        .gathers_late = now->late,
        .begin = begin,
        .update = update,
        .end = end,
        .user = &subtracting };
    float values[1 + 1000 + 7 + 4099] = { 0 };
    float *at = values;
    tutti_param params[MODEL_PARAMS];
    tutti_reducer_options options;
    int wrong = 0;

    tutti_reducer_options_default(&options);
    options.clip_norm = now->clip_norm;
    model_params(params);
    for (int p = 0; p < MODEL_PARAMS; p++) {
        params[p].value = at;
        at += model_counts[p];
    }
    (void)CHECK(tutti_reducer_create(t, params, MODEL_PARAMS, &options,
                        &subtracting.reducer) == TUTTI_OK);
    (void)CHECK(reducer_set_sink(subtracting.reducer, &takes) == TUTTI_OK);
    (void)CHECK(reducer_set_sink(subtracting.reducer, &takes) == TUTTI_ERR_INVALID);
    for (int64_t step = 0; step < STEPS; step++) {
        for (int p = MODEL_PARAMS; p-- > 0;) {
            model_fill(subtracting.reducer, size, tutti_rank(t), p);
            (void)CHECK(
                    tutti_reducer_ready(subtracting.reducer, (size_t)p) == TUTTI_OK);
        }
        (void)CHECK(tutti_reducer_wait(subtracting.reducer, NULL) == TUTTI_OK);
    }
    for (int p = 0; p < MODEL_PARAMS; p++) {
        for (int64_t i = 0; i < model_counts[p]; i++) {
            float expected = 0;

            for (int64_t step = 0; step < STEPS; step++) {
                expected -= model_average(size, step, p, i);
            }
            wrong += ((float *)params[p].value)[i] == expected ? 0 : 1;
        }
    }
    (void)CHECK(wrong == 0);
    (void)CHECK(subtracting.begun == STEPS && subtracting.ended == STEPS);
    (void)CHECK(now->sharded == (subtracting.updated < STEPS * (1 + 1000 + 7 + 4099)));
    (void)CHECK(tutti_reducer_destroy(subtracting.reducer) == TUTTI_ERR_INVALID);
    (void)CHECK(reducer_set_sink(subtracting.reducer, NULL) == TUTTI_OK);
    (void)CHECK(tutti_reducer_destroy(subtracting.reducer) == TUTTI_OK);
}

UNIT_TEST(test_a_sink_updates_its_part_and_values_are_gathered)
{
    static const struct sink_case cases[] = { { false, false, 0 }, { true, false, 0 },
        { true, true, 0 }, { true, false, 1e9 } };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sink_case now = cases[i];

        assert_int_equal(ranks_run(3, sink, &now), 0);
    }
}
