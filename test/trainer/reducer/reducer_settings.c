/*
 * The settings of a reducer: accumulation, gradients left out, clipping, overflow, loss scale.
 */
#include <math.h>
#include <string.h>

#include <tutti/trainer.h>

#include "model.h"
#include "ranks.h"
#include "test/unit/unit.h"

static tutti_reducer *make(tutti *t, const tutti_reducer_options *options)
{
    tutti_param params[MODEL_PARAMS];
    tutti_reducer *reducer = NULL;

    model_params(params);
    (void)CHECK(tutti_reducer_create(t, params, MODEL_PARAMS, options, &reducer) ==
            TUTTI_OK);
    return reducer;
}

static void mark_all(tutti_reducer *reducer, tutti *t)
{
    for (int p = MODEL_PARAMS; p-- > 0;) {
        model_fill(reducer, tutti_size(t), tutti_rank(t), p);
        (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
    }
}

/* The caller adds up three passes; here each pass is as large as the gradient. */
ON_RANKS(test_passes_are_counted_and_averaged, 2)
{
    tutti_reducer_options options;
    tutti_reducer *reducer;

    tutti_reducer_options_default(&options);
    options.accumulate = 4;
    reducer = make(t, &options);
    for (int64_t step = 0; step < 5; step++) {
        for (int pass = 0; pass < 4; pass++) {
            (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_ERR_INVALID);
            mark_all(reducer, t);
        }
        (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_ERR_INVALID);
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        for (int p = 0; p < MODEL_PARAMS; p++) {
            (void)CHECK(model_wrong(reducer, tutti_size(t), step, p, 0.25F) == 0);
        }
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* Every pass is waited for, and the gradient is not zeroed in between. */
ON_RANKS(test_passes_may_communicate, 3)
{
    tutti_reducer *reducer = make(t, NULL);
    float *gradient = tutti_reducer_gradient(reducer, 1);
    float expected = 0;

    for (int64_t pass = 0; pass < 3; pass++) {
        for (int p = MODEL_PARAMS; p-- > 0;) {
            gradient[5] += p == 1
                    ? model_gradient(tutti_size(t), tutti_rank(t), pass, 1, 5)
                    : 0;
            (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
        }
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        expected += model_average(tutti_size(t), pass, 1, 5);
    }
    (void)CHECK(gradient[5] == expected);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* Rank 1 leaves out parameter 0 in odd steps, and every rank parameter 2. */
ON_RANKS(test_gradients_that_were_left_out_count_as_zero, 2, 4)
{
    const int size = tutti_size(t);
    tutti_step_report report = { .size = sizeof report };
    tutti_reducer_options options;
    tutti_reducer *reducer;

    tutti_reducer_options_default(&options);
    options.unused = true;
    reducer = make(t, &options);
    for (int64_t step = 0; step < 8; step++) {
        const bool lacks = step % 2 == 1;
        const float *first = tutti_reducer_gradient(reducer, 0);
        float expected = model_average(size, step, 0, 0);

        for (int p = MODEL_PARAMS; p-- > 0;) {
            model_fill(reducer, size, tutti_rank(t), p);
            if (p != 2 && !(p == 0 && lacks && tutti_rank(t) == 1)) {
                (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
            }
        }
        (void)CHECK(tutti_reducer_wait(reducer, &report) == TUTTI_OK);
        if (lacks) {
            expected -= model_gradient(size, 1, step, 0, 0) / (float)size;
        }
        (void)CHECK(*first == expected);
        (void)CHECK(model_wrong(reducer, size, step, 1, 1) == 0);
        (void)CHECK(((float *)tutti_reducer_gradient(reducer, 2))[6] == 0);
        (void)CHECK(report.unused == 1 && report.step == step);
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

static void finish_silently(void *user, tutti_status status, const char *message)
{
    (void)message;
    *(_Atomic int *)user = status == TUTTI_OK ? 1 : -1;
}

/* Norms by hand, with a wait and with a callback; equal on all ranks. */
ON_RANKS(test_clipping_by_value_and_by_global_norm, 1, 3)
{
    const int size = tutti_size(t);
    const float limit = 20;
    tutti_step_report report = { .size = sizeof report };
    tutti_reducer_options options;
    double squares = 0;
    tutti_reducer *reducer;

    for (int p = 0; p < MODEL_PARAMS; p++) {
        for (int64_t i = 0; i < model_counts[p]; i++) {
            const double value = fminf(model_average(size, 0, p, i), limit);

            squares += value * value;
        }
    }
    tutti_reducer_options_default(&options);
    options.clip_norm = 10;
    options.clip_value = limit;
    reducer = make(t, &options);
    mark_all(reducer, t);
    (void)CHECK(tutti_reducer_wait(reducer, &report) == TUTTI_OK);
    (void)CHECK(report.norm == sqrt(squares) && !report.overflow);
    (void)CHECK(report.clip_scale == 10 / report.norm);
    (void)CHECK(((float *)tutti_reducer_gradient(reducer, 1))[5] ==
            fminf(model_average(size, 0, 1, 5), limit) * (float)report.clip_scale);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* The last rank has an infinity in one step: the loss scale halves, and the name is known. */
static void overflow(tutti *t, void *user)
{
    const bool *calls = user;
    tutti_step_report report = { .size = sizeof report };
    tutti_reducer_options options;
    tutti_reducer *reducer;
    _Atomic int done;

    tutti_reducer_options_default(&options);
    options.loss_scale = 1024;
    options.clip_value = 1e30; /* infinity is looked for before */
    reducer = make(t, &options);
    (void)CHECK(tutti_reducer_report(reducer, &report) == TUTTI_ERR_INVALID);
    if (*calls) {
        (void)CHECK(tutti_reducer_set_callback(reducer, finish_silently, &done) ==
                TUTTI_OK);
    }
    for (int64_t step = 0; step < 4; step++) {
        const double scale = tutti_reducer_loss_scale(reducer);

        done = 0;
        (void)CHECK(scale == (step < 2 ? 1024 : 512));
        for (int p = MODEL_PARAMS; p-- > 0;) {
            float *gradient = tutti_reducer_gradient(reducer, (size_t)p);

            model_fill(reducer, tutti_size(t), tutti_rank(t), p);
            for (int64_t i = 0; i < model_counts[p]; i++) {
                gradient[i] *= (float)scale;
            }
            if (step == 1 && p == 1 && tutti_rank(t) == tutti_size(t) - 1) {
                gradient[999] = INFINITY;
            }
            (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
        }
        while (*calls && done == 0) {
            tutti_request none = TUTTI_REQUEST_NULL;

            (void)CHECK(tutti_test(t, &none) == TUTTI_OK);
        }
        (void)CHECK((*calls ? tutti_reducer_report(reducer, &report)
                            : tutti_reducer_wait(reducer, &report)) == TUTTI_OK);
        (void)CHECK(report.step == step && report.loss_scale == scale);
        (void)CHECK(report.overflow == (step == 1));
        (void)CHECK(step != 1 || strcmp(report.overflow_name, "weights") == 0);
        (void)CHECK(step != 1 || /* what is done with it, all ranks do */
                ((float *)tutti_reducer_gradient(reducer, 1))[999] ==
                        (float)(options.clip_value * scale));
        (void)CHECK(step == 1 || model_all_wrong(reducer, tutti_size(t), step) == 0);
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

UNIT_TEST(test_an_overflow_is_named_and_halves_the_loss_scale)
{
    bool calls = false;

    assert_int_equal(ranks_run(1, overflow, &calls), 0);
    assert_int_equal(ranks_run(3, overflow, &calls), 0);
    calls = true;
    assert_int_equal(ranks_run(2, overflow, &calls), 0);
}

/* The squares of a gradient are infinite, and it is not. */
ON_RANKS(test_a_norm_whose_square_is_infinite_is_no_overflow, 1, 3)
{
    const tutti_param param = { .name = "w", .count = 2, .dtype = TUTTI_FLOAT64 };
    tutti_step_report report = { .size = sizeof report };
    tutti_reducer_options options;
    tutti_reducer *reducer;
    double *gradient;

    tutti_reducer_options_default(&options);
    options.clip_norm = 10;
    if (!CHECK(tutti_reducer_create(t, &param, 1, &options, &reducer) == TUTTI_OK)) {
        return;
    }
    gradient = tutti_reducer_gradient(reducer, 0);
    gradient[0] = 3e200;
    gradient[1] = -4e200;
    (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_OK);
    (void)CHECK(tutti_reducer_wait(reducer, &report) == TUTTI_OK);
    (void)CHECK(!report.overflow && fabs(report.norm / 5e200 - 1) < 1e-15);
    (void)CHECK(fabs(gradient[0] - 6) < 1e-14 && fabs(gradient[1] + 8) < 1e-14);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* The last rank differs in one thing: all are told which, and both values. */
ON_RANKS(test_settings_that_differ_are_named_on_all_ranks, 3)
{
    static const int64_t dims[] = { 1, 1000 };
    const bool odd = tutti_rank(t) == tutti_size(t) - 1;
    tutti_compression_settings settings;
    tutti_compressor top_k;

    tutti_compression_settings_default(&settings);
    settings.ratio = odd ? 0.25 : 0.5;
    top_k = tutti_compressor_with(tutti_compress_top_k(), &settings);
    for (int what = 0; what < 16; what++) {
        static const char *const texts[] = { "options.prefix: rank 0 gave \"gradient\"",
            "options.op: rank 0 gave \"average\", rank 2 gave \"sum\"",
            "accumulate: rank 0 gave 1, rank 2 gave 2", "unused", "uneven",
            "clip_norm: rank 0 gave 0, rank 2 gave 0.1", "clip_value", "find_overflow",
            "loss_scale", "shards", "first_step: rank 0 gave 0, rank 2 gave 7",
            "the number of parameters: rank 0 gave 4, rank 2 gave 3",
            "parameter 1: rank 0 gave \"weights\", float32 [1000], compressor none, "
            "rank 2 gave \"weights\", float32 [1, 1000], ",
            "\"w\"", "compressor bf16", "top-k (ratio 0.25, " };
        tutti_param params[MODEL_PARAMS];
        tutti_reducer_options options;
        tutti_reducer *reducer = NULL;

        model_params(params);
        tutti_reducer_options_default(&options);
        options.prefix = odd && what == 0 ? "g" : options.prefix;
        options.op = odd && what == 1 ? TUTTI_SUM : options.op;
        options.accumulate = odd && what == 2 ? 2 : 1;
        options.unused = odd && what == 3;
        options.uneven = odd && what == 4;
        options.clip_norm = odd && what == 5 ? 0.1 : 0;
        options.clip_value = odd && what == 6;
        options.find_overflow = odd && what == 7;
        options.loss_scale = odd && what == 8;
        options.shards = odd && what == 9;
        options.first_step = odd && what == 10 ? 7 : 0;
        params[1].ndim = odd && what == 12 ? 2 : 0;
        params[1].dims = dims;
        params[2].name = odd && what == 13 ? "w" : params[2].name;
        params[3].compressor = odd && what == 14 ? tutti_compress_bf16()
                : what == 15                     ? &top_k
                                                 : NULL;
        (void)CHECK(tutti_reducer_create(t, params, odd && what == 11 ? 3 : 4, &options,
                            &reducer) == TUTTI_ERR_MISMATCH);
        (void)CHECK(strstr(tutti_last_error(), texts[what]) != NULL);
        (void)CHECK(reducer == NULL);
    }
}

/* One wrong thing each; the message names it. */
ON_RANKS(test_bad_settings_are_refused_by_name, 1)
{
    static const int64_t dims[] = { 3, 4 };
    struct {
        const char *text;
        tutti_param param;
        tutti_reducer_options options;
    } cases[] = {
        { "\"w\" has 0 elements", { .name = "w", .dtype = TUTTI_FLOAT32 }, { 0 } },
        { "is of type int32", { .name = "w", .count = 1, .dtype = TUTTI_INT32 },
                { 0 } },
        { "parameter 0 needs a name", { .name = "", .count = 1 }, { 0 } },
        { "\"w\" has 13 elements, and its shape is float32 [3, 4]",
                { .name = "w",
                        .count = 13,
                        .dtype = TUTTI_FLOAT32,
                        .ndim = 2,
                        .dims = dims },
                { 0 } },
        { "accumulate is 0", { .name = "w", .count = 1, .dtype = TUTTI_FLOAT32 },
                { .accumulate = 0 } },
        { "clip_norm -1", { .name = "w", .count = 1, .dtype = TUTTI_FLOAT32 },
                { .accumulate = 1, .clip_norm = -1 } },
        { "compression need float32",
                { .name = "w", .count = 1, .dtype = TUTTI_FLOAT64 },
                { .op = TUTTI_AVERAGE, .accumulate = 1, .shards = 4 } },
        { "options.shards excludes",
                { .name = "w", .count = 1, .dtype = TUTTI_FLOAT32 },
                { .op = TUTTI_AVERAGE, .accumulate = 2, .shards = 4 } },
        { "must be TUTTI_AVERAGE", { .name = "w", .count = 1, .dtype = TUTTI_FLOAT32 },
                { .op = TUTTI_SUM, .accumulate = 1, .shards = 4 } },
        { "options.uneven excludes",
                { .name = "w",
                        .count = 1,
                        .dtype = TUTTI_FLOAT32,
                        .compressor = &(const tutti_compressor){ .name = "none" } },
                { .op = TUTTI_AVERAGE, .accumulate = 1, .uneven = true } },
        { "device memory can be", { .name = "w", .count = 1, .dtype = TUTTI_FLOAT32 },
                { .accumulate = 1, .memory = TUTTI_DEVICE, .clip_norm = 1 } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tutti_reducer_options options;
        tutti_reducer *reducer = NULL;

        tutti_reducer_options_default(&options);
        if (i >= 4) {
            cases[i].options.size = options.size;
            cases[i].options.prefix = options.prefix;
            options = cases[i].options;
        }
        (void)CHECK(tutti_reducer_create(t, &cases[i].param, 1, &options, &reducer) !=
                TUTTI_OK);
        (void)CHECK(strstr(tutti_last_error(), cases[i].text) != NULL);
        (void)CHECK(reducer == NULL);
        options = (tutti_reducer_options){ .size = 0 }; /* not filled */
        (void)CHECK(tutti_reducer_create(t, &cases[3].param, 1, &options, &reducer) ==
                TUTTI_ERR_INVALID);
        (void)CHECK(strstr(tutti_last_error(), "options.size is 0") != NULL);
    }
}
