/*
 * Local SGD: when the ranks meet, what becomes of the parameters, and errors.
 */
#include <math.h>
#include <string.h>

#include <tutti/trainer.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    COUNT = 37,
    RANKS = 4,
    STEPS = 13
};

/** What a rank's own update of a step subtracts: multiples of 1/8, so that means are exact. */
static double way(int rank, int64_t step, int i)
{
    return (double)((rank + 1) * (i + 1) % 7 + step % 3) / 8.0;
}

static double mean_way(int64_t from, int64_t to, int i)
{
    double sum = 0.0;

    for (int r = 0; r < RANKS; r++) {
        for (int64_t s = from; s < to; s++) {
            sum += way(r, s, i);
        }
    }
    return sum / RANKS;
}

struct model {
    float narrow[COUNT];
    double wide[COUNT];
    tutti_param params[2];
};

static void model_init(struct model *model)
{
    *model = (struct model){ .params = { { .name = "narrow",
                                                 .value = model->narrow,
                                                 .count = COUNT,
                                                 .dtype = TUTTI_FLOAT32 },
                                     { .name = "wide",
                                             .value = model->wide,
                                             .count = COUNT,
                                             .dtype = TUTTI_FLOAT64 } } };
    for (int i = 0; i < COUNT; i++) {
        model->narrow[i] = (float)i;
        model->wide[i] = i;
    }
}

static void update(struct model *model, int rank, int64_t step)
{
    for (int i = 0; i < COUNT; i++) {
        model->narrow[i] -= (float)way(rank, step, i);
        model->wide[i] -= way(rank, step, i);
    }
}

/** Both parameters of all ranks are as expected. */
static void check_model(
        const struct model *model, const double *expected, double within)
{
    for (int i = 0; i < COUNT; i++) {
        (void)CHECK(fabs(model->narrow[i] - expected[i]) <= within);
        (void)CHECK(fabs(model->wide[i] - expected[i]) <= within);
    }
}

/** Post-local SGD: the first two steps are averaged each, then every third. */
ON_RANKS(test_parameters_become_their_mean, RANKS)
{
    tutti_local_sgd_options options;
    tutti_local_sgd *local = NULL;
    struct model model;
    int64_t last = 0;
    double expected[COUNT];

    model_init(&model);
    tutti_local_sgd_options_default(&options);
    options.period = 3;
    options.start = 2;
    (void)CHECK(
            tutti_local_sgd_create(t, model.params, 2, &options, &local) == TUTTI_OK);
    (void)CHECK(tutti_local_sgd_tensors(local, NULL, 0) == 0);
    for (int i = 0; i < COUNT; i++) {
        expected[i] = i;
    }
    for (int64_t step = 0; step < STEPS; step++) {
        bool met = false;

        update(&model, tutti_rank(t), step);
        (void)CHECK(tutti_local_sgd_step(local, &met) == TUTTI_OK);
        (void)CHECK(met == (step < 2 || step % 3 == 1));
        if (met) {
            for (int i = 0; i < COUNT; i++) {
                expected[i] -= mean_way(last, step + 1, i);
            }
            check_model(&model, expected, 0.0);
            last = step + 1;
        }
    }
    (void)CHECK(tutti_local_sgd_current_step(local) == STEPS);
    tutti_local_sgd_destroy(local);
}

/** DiLoCo as in its paper, interrupted once and resumed from its tensors. */
ON_RANKS(test_diloco, RANKS)
{
    tutti_local_sgd_options options;
    tutti_local_sgd *local = NULL;
    struct model model;
    double expected[COUNT];
    double velocity[COUNT] = { 0 };

    model_init(&model);
    tutti_local_sgd_options_diloco(&options);
    (void)CHECK(options.period == 500);
    options.period = 2;
    (void)CHECK(
            tutti_local_sgd_create(t, model.params, 2, &options, &local) == TUTTI_OK);
    for (int i = 0; i < COUNT; i++) {
        expected[i] = i;
    }
    for (int64_t step = 0; step < STEPS - 1; step++) {
        bool met = false;

        update(&model, tutti_rank(t), step);
        (void)CHECK(tutti_local_sgd_step(local, &met) == TUTTI_OK);
        for (int i = 0; met && i < COUNT; i++) {
            double gradient = expected[i];

            /* of the mean over the ranks of where they got to */
            gradient -= expected[i] - mean_way(step - 1, step + 1, i);
            velocity[i] = 0.9 * velocity[i] + gradient;
            expected[i] -= 0.7 * (gradient + 0.9 * velocity[i]);
        }
        if (met) {
            check_model(&model, expected, 1e-4);
        }
        if (step == 5) {
            tutti_state_tensor old[4];
            tutti_state_tensor now[4];
            tutti_local_sgd *resumed = NULL;

            options.first_step = tutti_local_sgd_current_step(local);
            (void)CHECK(tutti_local_sgd_create(
                                t, model.params, 2, &options, &resumed) == TUTTI_OK);
            (void)CHECK(tutti_local_sgd_tensors(local, old, 4) == 4);
            (void)CHECK(tutti_local_sgd_tensors(resumed, now, 4) == 4);
            (void)CHECK(strcmp(old[0].name, "narrow.anchor") == 0);
            (void)CHECK(strcmp(old[3].name, "wide.velocity") == 0);
            for (int i = 0; i < 4; i++) {
                memcpy(now[i].data, old[i].data,
                        COUNT * tutti_dtype_size(now[i].dtype));
            }
            tutti_local_sgd_destroy(local);
            local = resumed;
        }
    }
    tutti_local_sgd_destroy(local);
}

/** Ranks that would meet in different steps are told before they train. */
ON_RANKS(test_settings_that_differ_are_refused, 2)
{
    tutti_local_sgd_options options;
    tutti_local_sgd *local = NULL;
    struct model model;

    model_init(&model);
    tutti_local_sgd_options_default(&options);
    options.first_step = tutti_rank(t) == 1 ? 3 : 4;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, &options, &local) ==
            TUTTI_ERR_MISMATCH);
    (void)CHECK(strstr(tutti_last_error(), "first_step: rank 0 gave 4, rank 1 gave 3"));
    options.first_step = 0;
    options.outer_learning_rate = tutti_rank(t) == 1 ? 0.5 : 1;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, &options, &local) ==
            TUTTI_ERR_MISMATCH);
    model.params[1].count -= tutti_rank(t) == 1;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, NULL, &local) ==
            TUTTI_ERR_MISMATCH);
    (void)CHECK(strstr(tutti_last_error(), "parameter 1: rank 0 gave \"wide\", "));
    (void)CHECK(local == NULL);
}

ON_RANKS(test_bad_settings_are_refused, 1)
{
    tutti_local_sgd_options options;
    tutti_local_sgd *local = NULL;
    struct model model;

    model_init(&model);
    tutti_local_sgd_options_default(&options);
    options.period = 0;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, &options, &local) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), "period is 0") != NULL);
    tutti_local_sgd_options_diloco(&options);
    options.outer_momentum = 1.0;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, &options, &local) ==
            TUTTI_ERR_INVALID);
    options.outer_momentum = 0.5;
    model.params[1].dtype = TUTTI_BFLOAT16;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, &options, &local) ==
            TUTTI_ERR_UNSUPPORTED);
    (void)CHECK(strstr(tutti_last_error(), "\"wide\" is of type bfloat16") != NULL);
    model.params[0].value = NULL;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, NULL, &local) ==
            TUTTI_ERR_INVALID);
    options.size = 0;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, &options, &local) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, NULL, NULL) ==
            TUTTI_ERR_INVALID);
    tutti_local_sgd_options_default(&options);
    options.process_set = 77;
    (void)CHECK(tutti_local_sgd_create(t, model.params, 2, &options, &local) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(local == NULL);
    tutti_local_sgd_destroy(NULL);
}
