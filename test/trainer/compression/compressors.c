/*
 * What holds for every compressor: equal bits on all ranks, nothing lost in the long run, a NaN
 * that does no lasting harm, state that can be saved.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer.h>

#include "gradients.h"
#include "ranks.h"
#include "test/unit/unit.h"

enum {
    STEPS = 12,
    TENSORS_MAX = 2 * PARAMS
};

struct test_case {
    const tutti_compressor *compressor;
    bool same; /* all ranks have the gradients of rank 0 */
    bool drops; /* planted: the residual is lost after each step */
    double worst; /* [out] what is missing in the end, relative to the gradients */
};

static tutti_compression_settings small_settings(void)
{
    tutti_compression_settings settings;

    tutti_compression_settings_default(&settings);
    settings.smallest = 0;
    settings.ratio = 0.1;
    return settings;
}

/** @param[out] compressor  lives as long as the reducer */
static tutti_reducer *make_reducer(tutti *t, const tutti_compressor *base,
        tutti_compressor *compressor, bool unused, bool find_overflow)
{
    tutti_compression_settings settings = small_settings();
    tutti_reducer_options options;
    tutti_param params[PARAMS];
    tutti_reducer *reducer = NULL;

    tutti_reducer_options_default(&options);
    options.unused = unused;
    options.find_overflow = find_overflow;
    *compressor = tutti_compressor_with(base, &settings);
    fill_params(params, compressor);
    (void)CHECK(
            tutti_reducer_create(t, params, PARAMS, &options, &reducer) == TUTTI_OK);
    return reducer;
}

/** One step; then all ranks must have the bits of rank 0. */
static void run_step(
        tutti_reducer *reducer, tutti *t, bool same, tutti_step_report *report)
{
    static const char *const result = "result";
    float first[ELEMENTS_MAX];

    for (int p = 0; p < PARAMS; p++) {
        float *gradient = tutti_reducer_gradient(reducer, (size_t)p);

        for (int64_t i = 0; i < counts[p]; i++) {
            gradient[i] = gradient_of(
                    same ? 0 : tutti_rank(t), tutti_reducer_step(reducer), p, i);
        }
        (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
    }
    (void)CHECK(tutti_reducer_wait(reducer, report) == TUTTI_OK);
    for (int p = 0; p < PARAMS; p++) {
        size_t bytes = (size_t)counts[p] * sizeof *first;
        const float *gradient = tutti_reducer_gradient(reducer, (size_t)p);

        memcpy(first, gradient, bytes);
        (void)CHECK(tutti_broadcast(t, result, first, counts[p], TUTTI_FLOAT32, 0,
                            NULL) == TUTTI_OK);
        (void)CHECK(memcmp(first, gradient, bytes) == 0);
    }
}

/** The residual of a parameter; NULL if it is not compressed. */
static float *residual_of(tutti_reducer *reducer, int param)
{
    tutti_state_tensor tensors[TENSORS_MAX];
    size_t n = tutti_reducer_tensors(reducer, tensors, TENSORS_MAX);
    size_t length = strlen(names[param]);

    for (size_t i = 0; i < n; i++) {
        if (strncmp(tensors[i].name, names[param], length) == 0 &&
                strcmp(tensors[i].name + length, ".residual") == 0) {
            (void)CHECK(tensors[i].count == counts[param]);
            return tensors[i].data;
        }
    }
    return NULL;
}

/** Sum of results, and the mean of residuals, less the sum of mean gradients. */
static double missing(tutti_reducer *reducer, tutti *t, const struct test_case *now,
        int p, const double *sum)
{
    double mean[ELEMENTS_MAX] = { 0 };
    double worst = 0.0;
    const float *residual = residual_of(reducer, p);

    for (int64_t i = 0; residual != NULL && i < counts[p]; i++) {
        mean[i] = residual[i];
    }
    (void)CHECK(tutti_allreduce(t, "residual", mean, mean, counts[p], TUTTI_FLOAT64,
                        TUTTI_AVERAGE, NULL) == TUTTI_OK);
    for (int64_t i = 0; i < counts[p]; i++) {
        double whole = 0.0;

        for (int s = 0; s < STEPS; s++) {
            for (int r = 0; r < tutti_size(t); r++) {
                whole +=
                        (double)gradient_of(now->same ? 0 : r, s, p, i) / tutti_size(t);
            }
        }
        worst = fmax(worst, fabs(sum[i] + mean[i] - whole));
    }
    return worst;
}

static void lose_nothing(tutti *t, void *user)
{
    struct test_case *now = user;
    tutti_compressor compressor;
    tutti_reducer *reducer =
            make_reducer(t, now->compressor, &compressor, false, false);
    double(*sums)[ELEMENTS_MAX] = calloc(PARAMS, sizeof *sums);
    double worst = 0.0;

    for (int s = 0; s < STEPS; s++) {
        tutti_step_report report = { .size = sizeof report };

        run_step(reducer, t, now->same, &report);
        (void)CHECK((tutti_size(t) == 1) == (report.compression_error == 0.0));
        (void)CHECK(report.compression_error < 1.0);
        (void)CHECK(tutti_size(t) == 1 || report.sent_bytes < report.gradient_bytes);
        for (int p = 0; p < PARAMS; p++) {
            const float *gradient = tutti_reducer_gradient(reducer, (size_t)p);
            float *residual = residual_of(reducer, p);

            for (int64_t i = 0; i < counts[p]; i++) {
                sums[p][i] += gradient[i];
            }
            if (now->drops && residual != NULL) {
                memset(residual, 0, (size_t)counts[p] * sizeof *residual);
            }
        }
    }
    for (int p = 0; p < PARAMS; p++) {
        worst = fmax(worst, missing(reducer, t, now, p, sums[p]));
    }
    if (tutti_rank(t) == 0) {
        now->worst = worst;
    }
    free(sums);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

/* A 16-bit mean is rounded once more, after the residual is known: with equal gradients it is
   exact, so that nothing hides a lost residual. */
static void each_compressor(void (*visit)(struct test_case *now))
{
    visit(&(struct test_case){ .compressor = tutti_compress_fp16(), .same = true });
    visit(&(struct test_case){ .compressor = tutti_compress_bf16(), .same = true });
    visit(&(struct test_case){ .compressor = tutti_compress_top_k() });
    visit(&(struct test_case){ .compressor = tutti_compress_power_sgd() });
    visit(&(struct test_case){ .compressor = tutti_compress_sign() });
}

static void visit_lose_nothing(struct test_case *now)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        assert_int_equal(ranks_run(ranks, lose_nothing, now), 0);
        assert_true(now->worst < 2e-5);
    }
}

UNIT_TEST(test_what_is_left_out_comes_later)
{
    each_compressor(visit_lose_nothing);
}

static void visit_dropped(struct test_case *now)
{
    now->drops = true;
    assert_int_equal(ranks_run(2, lose_nothing, now), 0);
    assert_true(now->worst > 1e-4);
}

UNIT_TEST(test_a_dropped_residual_is_found)
{
    each_compressor(visit_dropped);
}

/** Copies what is to be saved out of a reducer, or back. */
static void copy_state(tutti_reducer *reducer, float (*saved)[ELEMENTS_MAX], bool back)
{
    tutti_state_tensor tensors[TENSORS_MAX];
    size_t n = tutti_reducer_tensors(reducer, tensors, TENSORS_MAX);

    (void)CHECK(n > 0 && n <= TENSORS_MAX);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = (size_t)tensors[i].count * sizeof(float);

        memcpy(back ? tensors[i].data : saved[i], back ? saved[i] : tensors[i].data,
                bytes);
    }
}

static bool state_is(tutti_reducer *reducer, float (*saved)[ELEMENTS_MAX])
{
    tutti_state_tensor tensors[TENSORS_MAX];
    size_t n = tutti_reducer_tensors(reducer, tensors, TENSORS_MAX);
    bool same = true;

    for (size_t i = 0; i < n; i++) {
        same = same &&
                memcmp(tensors[i].data, saved[i],
                        (size_t)tensors[i].count * sizeof(float)) == 0;
    }
    return same;
}

/** Another reducer goes on from saved state; then a step with NaN, and one with infinity. */
static void save_and_spoil(tutti *t, void *user)
{
    const struct test_case *now = user;
    tutti_compressor compressor;
    tutti_reducer *reducer =
            make_reducer(t, now->compressor, &compressor, false, false);
    tutti_reducer *resumed = make_reducer(t, now->compressor, &compressor, false, true);
    tutti_step_report report = { .size = sizeof report };
    float(*saved)[ELEMENTS_MAX] = calloc(TENSORS_MAX, sizeof *saved);

    run_step(reducer, t, false, NULL);
    run_step(resumed, t, true, NULL);
    copy_state(reducer, saved, false);
    (void)CHECK(tutti_rank(t) == 0 || !state_is(resumed, saved));
    copy_state(resumed, saved, true);
    run_step(reducer, t, false, NULL);
    run_step(resumed, t, false, NULL);
    for (int p = 0; p < PARAMS; p++) {
        (void)CHECK(memcmp(tutti_reducer_gradient(reducer, (size_t)p),
                            tutti_reducer_gradient(resumed, (size_t)p),
                            (size_t)counts[p] * sizeof(float)) == 0);
    }
    copy_state(reducer, saved, false);
    for (int p = 0; p < PARAMS;
            p++) { /* one alone overflows; nothing of the step stays */
        *(float *)tutti_reducer_gradient(resumed, (size_t)p) =
                p == 1 && tutti_rank(t) == 2 ? INFINITY : 1.0F;
        (void)CHECK(tutti_reducer_ready(resumed, (size_t)p) == TUTTI_OK);
    }
    (void)CHECK(tutti_reducer_wait(resumed, &report) == TUTTI_OK);
    (void)CHECK(report.overflow && strcmp(report.overflow_name, names[1]) == 0);
    (void)CHECK(state_is(resumed, saved));
    for (int bad = 0; bad < 2; bad++) {
        for (int p = 0; p < PARAMS; p++) {
            float *gradient = tutti_reducer_gradient(reducer, (size_t)p);

            memset(gradient, 0, (size_t)counts[p] * sizeof *gradient);
            gradient[0] = 1.0F;
            if (tutti_rank(t) == 1) {
                gradient[counts[p] - 1] = bad == 0 ? NAN : -INFINITY;
            }
            (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
        }
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        for (int p = 0; p < PARAMS; p++) {
            float *gradient = tutti_reducer_gradient(reducer, (size_t)p);

            (void)CHECK(!isfinite(gradient[counts[p] - 1]));
        }
        (void)CHECK(state_is(reducer, saved));
    }
    run_step(reducer, t, false, NULL);
    for (int p = 0; p < PARAMS; p++) {
        (void)CHECK(isfinite(((float *)tutti_reducer_gradient(reducer, (size_t)p))[0]));
    }
    free(saved);
    (void)CHECK(tutti_reducer_destroy(resumed) == TUTTI_OK);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

static void visit_save_and_spoil(struct test_case *now)
{
    assert_int_equal(ranks_run(3, save_and_spoil, now), 0);
}

UNIT_TEST(test_state_is_saved_and_nan_does_not_stay)
{
    each_compressor(visit_save_and_spoil);
}

/** Steps of zeros, on one rank or on all, and steps in which nobody marks anything. */
static void leave_out(tutti *t, void *user)
{
    const struct test_case *now = user;
    tutti_compressor compressor;
    tutti_reducer *reducer = make_reducer(t, now->compressor, &compressor, true, false);

    for (int s = 0; s < 5; s++) {
        for (int p = 0; p < PARAMS; p++) {
            float *gradient = tutti_reducer_gradient(reducer, (size_t)p);
            bool zero = s == 0 || (s == 1 && tutti_rank(t) == 0);

            for (int64_t i = 0; i < counts[p]; i++) {
                gradient[i] = zero ? 0.0F : gradient_of(tutti_rank(t), s, p, i);
            }
            if (s < 2 || (s == 3 && tutti_rank(t) == 0) || s == 4) {
                (void)CHECK(tutti_reducer_ready(reducer, (size_t)p) == TUTTI_OK);
            }
        }
        (void)CHECK(tutti_reducer_wait(reducer, NULL) == TUTTI_OK);
        for (int p = 0; p < PARAMS; p++) {
            const float *gradient = tutti_reducer_gradient(reducer, (size_t)p);
            bool silent = true;

            for (int64_t i = 0; i < counts[p]; i++) {
                silent = silent && gradient[i] == 0.0F;
            }
            (void)CHECK(silent == (s == 0 || s == 2));
        }
    }
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

static void visit_leave_out(struct test_case *now)
{
    assert_int_equal(ranks_run(2, leave_out, now), 0);
}

UNIT_TEST(test_zeros_and_unused_gradients)
{
    each_compressor(visit_leave_out);
    visit_leave_out(&(struct test_case){ .compressor = tutti_compress_adasum() });
    visit_leave_out(&(struct test_case){ .compressor = tutti_compress_none() });
}

static void refuse(tutti *t, tutti_compression_settings settings, const char *text)
{
    tutti_compressor compressor =
            tutti_compressor_with(tutti_compress_top_k(), &settings);
    tutti_param params[PARAMS];
    tutti_reducer *reducer = NULL;

    fill_params(params, &compressor);
    (void)CHECK(tutti_reducer_create(t, params, PARAMS, NULL, &reducer) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), text) != NULL);
}

ON_RANKS(test_bad_settings_are_refused, 1)
{
    tutti_compression_settings settings = small_settings();

    settings.ratio = NAN;
    refuse(t, settings, "ratio is nan");
    settings.ratio = 1.5;
    refuse(t, settings, "parameter one: compression settings: ratio is 1.5");
    settings = small_settings();
    settings.rank = 0;
    refuse(t, settings, "rank is 0");
    settings = small_settings();
    settings.smallest = -1;
    refuse(t, settings, "smallest is -1");
    settings.size = 0;
    refuse(t, settings, "size of its compression settings is 0");
}
