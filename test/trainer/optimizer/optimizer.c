/*
 * Optimizers over ranks: sharded as unsharded, halves, overflow, custom updates, state, refusals.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "ranks.h"
#include "reducer/elements.h"
#include "test/unit/unit.h"

enum {
    PARAMS = 5,
    STEPS = 6,
    BYTES = 8 * 4099 /* of the largest value */
};

static const int64_t counts[PARAMS] = { 1, 4099, 1030, 2051, 77 };
static const tutti_dtype dtypes[PARAMS] = { TUTTI_FLOAT32, TUTTI_FLOAT32, TUTTI_FLOAT16,
    TUTTI_BFLOAT16, TUTTI_FLOAT64 };
#define FIFTY "of.a.layer.whose.name.is.as.long.as.a.name.can.be."
static const char *const names[PARAMS] = { "scale", "weights", "half", "bfloat",
    FIFTY FIFTY FIFTY FIFTY };

/** A model of one optimizer. */
struct model {
    tutti *t;
    tutti_reducer *reducer;
    tutti_optimizer *optimizer;
    _Alignas(64) unsigned char values[PARAMS][BYTES];
};

/* Writes one element of any type. */
static void put(tutti_dtype dtype, void *elements, int64_t i, double value)
{
    const float rounded = (float)value;

    if (dtype == TUTTI_FLOAT64) {
        ((double *)elements)[i] = value;
    } else {
        elements_store(dtype, &rounded, elements_at(dtype, elements, i), 1);
    }
}

static tutti_optimizer_options options_of(tutti_optimizer_kind kind, bool sharded)
{
    tutti_optimizer_options options;

    tutti_optimizer_options_default(&options);
    options.kind = kind;
    options.learning_rate = 0.01;
    options.momentum = 0.9;
    options.nesterov = kind == TUTTI_OPTIMIZER_SGD;
    options.weight_decay = 0.1;
    options.sharded = sharded;
    return options;
}

/* A model with the same values on all ranks. */
static struct model *model_make(tutti *t, tutti_reducer_options *reducer_options,
        const char *prefix, const tutti_optimizer_options *options)
{
    struct model *model = aligned_alloc(64, sizeof *model);
    tutti_param params[PARAMS];
    tutti_reducer_options defaults;

    if (model == NULL) {
        abort(); /* other ranks would wait */
    }
    if (reducer_options == NULL) {
        reducer_options = &defaults;
        tutti_reducer_options_default(reducer_options);
    }
    reducer_options->prefix = prefix;
    *model = (struct model){ .t = t };
    for (int p = 0; p < PARAMS; p++) {
        params[p] = (tutti_param){ .name = names[p],
            .value = model->values[p],
            .count = counts[p],
            .dtype = dtypes[p] };
        for (int64_t i = 0; i < counts[p]; i++) {
            put(dtypes[p], model->values[p], i, (double)(i % 29 - 14) / 7);
        }
    }
    (void)CHECK(tutti_reducer_create(t, params, PARAMS, reducer_options,
                        &model->reducer) == TUTTI_OK);
    (void)CHECK(tutti_optimizer_create(model->reducer, options, &model->optimizer) ==
            TUTTI_OK);
    return model;
}

static void model_free(struct model *model)
{
    (void)CHECK(tutti_optimizer_destroy(model->optimizer) == TUTTI_OK);
    (void)CHECK(tutti_reducer_destroy(model->reducer) == TUTTI_OK);
    free(model);
}

/* Marks gradients that differ between ranks, steps and elements, times a factor. */
static void model_mark(const struct model *model, int step, double factor)
{
    const int rank = tutti_rank(model->t);

    for (int p = PARAMS; p-- > 0;) {
        void *gradient = tutti_reducer_gradient(model->reducer, (size_t)p);

        for (int64_t i = 0; i < counts[p]; i++) {
            const int64_t mixed = i * 7 + (int64_t)step * 13 + (int64_t)rank * 5;

            put(dtypes[p], gradient, i, factor * (double)(mixed % 31 - 13) / 16);
        }
        (void)CHECK(tutti_reducer_ready(model->reducer, (size_t)p) == TUTTI_OK);
    }
}

static void model_step(const struct model *model, int step)
{
    model_mark(model, step, 1);
    (void)CHECK(tutti_optimizer_step(model->optimizer, NULL) == TUTTI_OK);
}

static bool same_values(const struct model *a, const struct model *b)
{
    for (int p = 0; p < PARAMS; p++) {
        if (memcmp(a->values[p], b->values[p],
                    (size_t)counts[p] * tutti_dtype_size(dtypes[p])) != 0) {
            return false;
        }
    }
    return true;
}

/* Whether all ranks have the bits of rank 0. */
static bool same_on_ranks(const struct model *model)
{
    struct model *first = aligned_alloc(64, sizeof *first);
    uint8_t differs = 0;

    memcpy(first, model, sizeof *first);
    (void)CHECK(tutti_broadcast(model->t, "compare", first->values,
                        sizeof first->values, TUTTI_UINT8, 0, NULL) == TUTTI_OK);
    differs = same_values(model, first) ? 0 : 1;
    (void)CHECK(tutti_allreduce(model->t, "differs", &differs, &differs, 1, TUTTI_UINT8,
                        TUTTI_MAX, NULL) == TUTTI_OK);
    free(first);
    return differs == 0;
}

/* ------------------------------------------------------------------ sharded */

static void shard(tutti *t, void *user)
{
    (void)user;
    for (int kind = TUTTI_OPTIMIZER_SGD; kind <= TUTTI_OPTIMIZER_ADAMW; kind++) {
        tutti_optimizer_options options = options_of((tutti_optimizer_kind)kind, false);
        struct model *whole = model_make(t, NULL, "whole", &options);
        struct model *parts;

        options.sharded = true;
        parts = model_make(t, NULL, "parts", &options);
        for (int step = 0; step < STEPS; step++) {
            model_step(whole, step);
            model_step(parts, step);
            (void)CHECK(same_values(whole, parts));
        }
        (void)CHECK(same_on_ranks(parts));
        model_free(whole);
        model_free(parts);
    }
}

UNIT_TEST(test_sharded_gives_the_bits_of_unsharded)
{
    for (int n = 1; n <= 3; n++) {
        assert_int_equal(ranks_run(n, shard, NULL), 0);
    }
}

/* Norms are added up in another order; a step without the gradient of "weights" is one. */
ON_RANKS(test_a_sharded_lamb_agrees_on_norms, 3)
{
    tutti_optimizer_options options = options_of(TUTTI_OPTIMIZER_LAMB, false);
    tutti_reducer_options unused;
    struct model *models[2];

    options.nesterov = false;
    tutti_reducer_options_default(&unused);
    unused.unused = true;
    models[0] = model_make(t, &unused, "whole", &options);
    options.sharded = true;
    models[1] = model_make(t, &unused, "parts", &options);
    for (int m = 0; m < 2; m++) {
        const float before = ((float *)models[m]->values[1])[5];

        model_step(models[m], 0);
        (void)CHECK(((float *)models[m]->values[1])[5] != before);
        memcpy(tutti_reducer_gradient(models[m]->reducer, 4), models[m]->values[4],
                77 * sizeof(double));
        (void)CHECK(tutti_reducer_ready(models[m]->reducer, 4) == TUTTI_OK);
        (void)CHECK(tutti_optimizer_step(models[m]->optimizer, NULL) == TUTTI_OK);
        model_step(models[m], 2);
        (void)CHECK(same_on_ranks(models[m]));
    }
    for (int i = 0; i < 4099; i++) {
        const float whole = ((float *)models[0]->values[1])[i];

        (void)CHECK(fabsf(((float *)models[1]->values[1])[i] - whole) <= 1e-6F);
    }
    model_free(models[0]);
    model_free(models[1]);
}

/* ------------------------------------------------------------------- halves */

/* A master is as a float32 parameter; a value that was changed takes its place. */
ON_RANKS(test_halves_move_with_their_masters, 1, 2)
{
    float value = 1; /* so small a step changes nothing in float16 */
    uint16_t half;
    const tutti_param params[2] = {
        { .name = "half", .value = &half, .count = 1, .dtype = TUTTI_FLOAT16 },
        { .name = "float", .value = &value, .count = 1, .dtype = TUTTI_FLOAT32 },
    };
    tutti_optimizer_options options = options_of(TUTTI_OPTIMIZER_ADAM, true);
    tutti_reducer_options reducer_options;
    tutti_optimizer *optimizer = NULL;
    tutti_reducer *reducer = NULL;

    options.learning_rate = 1e-4;
    options.nesterov = false;
    tutti_reducer_options_default(&reducer_options);
    reducer_options.loss_scale = 1024;
    elements_store(TUTTI_FLOAT16, &value, &half, 1);
    (void)CHECK(
            tutti_reducer_create(t, params, 2, &reducer_options, &reducer) == TUTTI_OK);
    (void)CHECK(tutti_optimizer_create(reducer, &options, &optimizer) == TUTTI_OK);
    for (int step = 0; step < 40; step++) {
        const float scaled =
                (float)(tutti_reducer_loss_scale(reducer) * (step % 7 + 1) / 8);
        uint16_t expected;

        if (step == 20) {
            value = 3;
            elements_store(TUTTI_FLOAT16, &value, &half, 1);
        }
        for (size_t p = 0; p < 2; p++) {
            put(params[p].dtype, tutti_reducer_gradient(reducer, p), 0, scaled);
            (void)CHECK(tutti_reducer_ready(reducer, p) == TUTTI_OK);
        }
        (void)CHECK(tutti_optimizer_step(optimizer, NULL) == TUTTI_OK);
        elements_store(TUTTI_FLOAT16, &value, &expected, 1);
        (void)CHECK(half == expected);
    }
    (void)CHECK(value < 2.9985F && value > 2.99F);
    (void)CHECK(tutti_optimizer_destroy(optimizer) == TUTTI_OK);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* Rank 1 alone has an infinite gradient in step 2. */
static void overflow(tutti *t, void *user)
{
    const tutti_optimizer_options options = options_of(TUTTI_OPTIMIZER_SGD, true);
    struct model *with = NULL;
    struct model *without = NULL;
    tutti_reducer_options reducer_options;
    tutti_state_tensor state[64];
    size_t count;

    (void)user;
    tutti_reducer_options_default(&reducer_options);
    reducer_options.loss_scale = 8;
    with = model_make(t, &reducer_options, "with", &options);
    without = model_make(t, NULL, "without", &options);
    for (int step = 0; step < 4; step++) {
        tutti_step_report report = { .size = sizeof report };
        const double factor = tutti_rank(t) == 1 && step == 2
                ? INFINITY
                : tutti_reducer_loss_scale(with->reducer);

        model_mark(with, step, factor);
        (void)CHECK(tutti_optimizer_step(with->optimizer, &report) == TUTTI_OK);
        (void)CHECK(report.overflow == (step == 2));
        if (step != 2) {
            model_step(without, step);
        }
        (void)CHECK(same_values(with, without));
    }
    (void)CHECK(tutti_reducer_loss_scale(with->reducer) == 4);
    (void)CHECK(tutti_optimizer_state(with->optimizer, state, 64, &count) == TUTTI_OK);
    (void)CHECK(((const int64_t *)state[0].data)[PARAMS - 1] == 3);
    model_free(with);
    model_free(without);
}

UNIT_TEST(test_a_step_with_overflow_updates_nothing)
{
    assert_int_equal(ranks_run(2, overflow, NULL), 0);
}

/* ------------------------------------------------------------ custom, faults */

/** SGD with momentum, by hand; `wrong` is added to the gradients of one rank. */
struct custom {
    float wrong;
    int64_t elements;
};

static void update_by_hand(void *user, const tutti_update *update)
{
    struct custom *custom = user;
    float *state = update->state;

    custom->elements += update->count;
    if (update->dtype != TUTTI_FLOAT32) {
        return;
    }
    for (int64_t i = 0; i < update->count; i++) {
        float *value = (float *)update->value + i;
        const float gradient =
                ((const float *)update->gradient)[i] * (float)update->gradient_scale +
                custom->wrong;

        state[i] = 0.9F * state[i] + gradient;
        *value -= (float)update->learning_rate * state[i];
    }
}

ON_RANKS(test_a_custom_update_has_parts_and_state, 1, 3)
{
    tutti_optimizer_options options = options_of(TUTTI_OPTIMIZER_CUSTOM, true);
    tutti_optimizer_options sgd = options_of(TUTTI_OPTIMIZER_SGD, false);
    struct custom custom = { .wrong = 0 };
    struct model *model;
    struct model *reference;

    options.nesterov = false;
    options.update = update_by_hand;
    options.user = &custom;
    options.state_bytes = sizeof(float);
    sgd.nesterov = false;
    sgd.weight_decay = 0;
    model = model_make(t, NULL, "custom", &options);
    reference = model_make(t, NULL, "sgd", &sgd);
    for (int step = 0; step < STEPS; step++) {
        model_step(model, step);
        model_step(reference, step);
    }
    (void)CHECK(
            memcmp(model->values[1], reference->values[1], 4099 * sizeof(float)) == 0);
    (void)CHECK(custom.elements < STEPS * 7258 / tutti_size(t) + STEPS * PARAMS);
    model_free(model);
    model_free(reference);
}

/* -------------------------------------------------------------------- state */

/* Brings the parts of a sharded optimizer together in the state of another. */
static void copy_state(tutti *t, const struct model *from, const struct model *to)
{
    tutti_state_tensor parts[32];
    tutti_state_tensor whole[32];
    size_t count = 0;
    size_t same = 0;

    (void)CHECK(tutti_optimizer_state(from->optimizer, parts, 2, &count) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(count == 1 + 2 * PARAMS + 2);
    (void)CHECK(tutti_optimizer_state(from->optimizer, parts, 32, &count) == TUTTI_OK);
    (void)CHECK(tutti_optimizer_state(to->optimizer, whole, 32, &same) == TUTTI_OK);
    (void)CHECK(same == count && strcmp(parts[0].name, "optimizer.step") == 0);
    (void)CHECK(strcmp(parts[3].name, "optimizer.weights.moment1") == 0);
    memcpy(whole[0].data, parts[0].data, PARAMS * sizeof(int64_t));
    for (size_t i = 1; i < count; i++) {
        int64_t rows[8];
        int64_t first;

        for (int r = 0; r < tutti_size(t); r++) {
            rows[r] = tutti_part(whole[i].count, tutti_size(t), r, NULL);
        }
        (void)CHECK(strcmp(parts[i].name, whole[i].name) == 0);
        (void)CHECK(whole[i].first == 0 &&
                tutti_part(whole[i].count, tutti_size(t), tutti_rank(t), &first) ==
                        parts[i].count &&
                parts[i].first == first);
        (void)CHECK(parts[i].dims[0] == whole[i].count && parts[i].ndim == 1);
        (void)CHECK(tutti_allgather(t, parts[i].name, parts[i].data, whole[i].data,
                            parts[i].count, 1, rows, parts[i].dtype, NULL) == TUTTI_OK);
    }
}

ON_RANKS(test_state_goes_on_at_another_number_of_parts, 3)
{
    tutti_optimizer_options options = options_of(TUTTI_OPTIMIZER_ADAMW, true);
    struct model *before;
    struct model *after;
    int64_t here = 0;
    int64_t replicated = 0;

    before = model_make(t, NULL, "before", &options);
    options.sharded = false;
    after = model_make(t, NULL, "after", &options);
    for (int step = 0; step < 3; step++) {
        model_step(before, step);
    }
    copy_state(t, before, after);
    memcpy(after->values, before->values, sizeof after->values);
    for (int step = 3; step < STEPS; step++) {
        model_step(before, step);
        model_step(after, step);
        (void)CHECK(same_values(before, after));
    }
    tutti_optimizer_memory(before->optimizer, &here, &replicated);
    (void)CHECK(replicated == 8 * (1 + 4099) + 12 * (1030 + 2051) + 16 * 77);
    (void)CHECK(here < replicated / tutti_size(t) + 100);
    tutti_optimizer_memory(after->optimizer, &here, NULL);
    (void)CHECK(here == replicated);
    model_free(before);
    model_free(after);
}

/* Rank r has r + 2 steps of data, and the last step of the last rank overflows. */
ON_RANKS(test_ranks_that_joined_get_values_state_and_loss_scale, 3)
{
    const int steps = tutti_rank(t) + 2;
    tutti_optimizer_options options = options_of(TUTTI_OPTIMIZER_ADAMW, false);
    tutti_state_tensor tensors[64];
    tutti_reducer_options uneven;
    struct model *model;
    size_t count = 0;

    tutti_reducer_options_default(&uneven);
    uneven.uneven = true;
    uneven.loss_scale = 1024;
    model = model_make(t, &uneven, "uneven", &options);
    for (int step = 0; step < steps; step++) {
        model_mark(model, step,
                step == tutti_size(t) ? INFINITY
                                      : tutti_reducer_loss_scale(model->reducer));
        (void)CHECK(tutti_optimizer_step(model->optimizer, NULL) == TUTTI_OK);
    }
    (void)CHECK(tutti_reducer_join(model->reducer, NULL) == TUTTI_OK);
    (void)CHECK(tutti_reducer_loss_scale(model->reducer) == 512);
    (void)CHECK(tutti_reducer_step(model->reducer) == tutti_size(t) + 1);
    (void)CHECK(
            tutti_optimizer_state(model->optimizer, tensors, 32, &count) == TUTTI_OK);
    (void)CHECK(((const int64_t *)tensors[0].data)[0] == tutti_size(t));
    for (int p = 0; p < PARAMS; p++) {
        tensors[count++] = (tutti_state_tensor){ .name = names[p],
            .data = model->values[p],
            .dtype = dtypes[p],
            .ndim = 1,
            .dims = &counts[p],
            .count = counts[p] };
    }
    (void)CHECK(tutti_check_state(t, TUTTI_WORLD, tensors, count) == TUTTI_OK);
    model_free(model);
}

/* ----------------------------------------------------------------- refusals */

static void refuse(tutti_reducer *reducer, const tutti_optimizer_options *options,
        tutti_status expected, const char *text)
{
    tutti_optimizer *optimizer = NULL;

    (void)CHECK(tutti_optimizer_create(reducer, options, &optimizer) == expected);
    (void)CHECK(optimizer == NULL && strstr(tutti_last_error(), text) != NULL);
}

ON_RANKS(test_what_cannot_be_is_refused_on_all_ranks, 3)
{
    const tutti_optimizer_options good = options_of(TUTTI_OPTIMIZER_ADAMW, false);
    float value = 0;
    tutti_param param = {
        .name = "w", .value = &value, .count = 1, .dtype = TUTTI_FLOAT32
    };
    tutti_optimizer_options options = good;
    tutti_optimizer *optimizer = NULL;
    tutti_reducer *reducer = NULL;
    const bool odd = tutti_rank(t) == 1;

    (void)CHECK(tutti_reducer_create(t, &param, 1, NULL, &reducer) == TUTTI_OK);
    options.beta2 = 1;
    refuse(reducer, &options, TUTTI_ERR_INVALID, "options.beta2 is 1");
    options = good;
    options.nesterov = true;
    refuse(reducer, &options, TUTTI_ERR_INVALID, "nesterov is for SGD");
    options = good;
    options.kind = TUTTI_OPTIMIZER_CUSTOM;
    refuse(reducer, &options, TUTTI_ERR_INVALID, "options.update");
    options = good;
    options.learning_rate = odd ? NAN : 1; /* one rank alone is wrong */
    refuse(reducer, &options, TUTTI_ERR_INVALID,
            "rank 1: tutti_optimizer_create: options.learning_rate is nan");
    options.learning_rate = odd ? 0.25 : 0.5; /* ranks differ */
    refuse(reducer, &options, TUTTI_ERR_MISMATCH,
            "options.learning_rate: rank 0 gave 0.5, rank 1 gave 0.25");
    options = good;
    options.sharded = odd;
    refuse(reducer, &options, TUTTI_ERR_MISMATCH,
            "different values of options.sharded");
    (void)CHECK(tutti_optimizer_create(reducer, &good, &optimizer) == TUTTI_OK);
    refuse(reducer, &good, TUTTI_ERR_INVALID, "there is an optimizer already");
    (void)CHECK(tutti_optimizer_set_learning_rate(optimizer, -1) == TUTTI_ERR_INVALID);
    (void)CHECK(tutti_optimizer_learning_rate(optimizer) == 0.01);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_ERR_INVALID);
    (void)CHECK(tutti_optimizer_step(optimizer, NULL) == TUTTI_ERR_INVALID);
    (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_OK);
    (void)CHECK(tutti_optimizer_destroy(optimizer) == TUTTI_ERR_INVALID);
    (void)CHECK(tutti_optimizer_step(optimizer, NULL) == TUTTI_OK);
    (void)CHECK(tutti_optimizer_destroy(optimizer) == TUTTI_OK);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}
