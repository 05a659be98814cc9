/*
 * Updates against PyTorch's optimizers, and pure functions: slices, and learning rates.
 */
#include "optimizer/update.h"

#include <math.h>
#include <string.h>

#include <tutti/trainer.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    ELEMENTS = 6,
    CHECKS = 3
};

/** Where PyTorch takes a parameter. */
struct vector {
    tutti_optimizer_options options;
    double values[CHECKS][ELEMENTS];
};

#include "vectors.h"

/* ------------------------------------------------------------------ PyTorch */

/* That of vectors.py, to whose average rank r of n contributes this much more or less. */
static double gradient_at(double value, int i, int step, int ranks, int rank)
{
    const double noise = ((i * 29 + step * 17) % 41 - 20) / 16.0;

    return noise + 0.25 * value + (rank - (ranks - 1) / 2.0);
}

struct pair {
    float floats[ELEMENTS];
    double doubles[ELEMENTS];
};

static void mark(tutti *t, tutti_reducer *reducer, const struct pair *values, int step)
{
    float *floats = tutti_reducer_gradient(reducer, 0);
    double *doubles = tutti_reducer_gradient(reducer, 1);

    for (int i = 0; i < ELEMENTS; i++) {
        floats[i] = (float)gradient_at(
                values->floats[i], i, step, tutti_size(t), tutti_rank(t));
        doubles[i] =
                gradient_at(values->doubles[i], i, step, tutti_size(t), tutti_rank(t));
    }
    (void)CHECK(tutti_reducer_ready(reducer, 0) == TUTTI_OK);
    (void)CHECK(tutti_reducer_ready(reducer, 1) == TUTTI_OK);
}

static bool near(const struct pair *values, const struct vector *vector, int check)
{
    for (int i = 0; i < ELEMENTS; i++) {
        const double d = vector->values[check][i];

        if (!(fabs(values->floats[i] - d) <= 2e-6 * fmax(1, fabs(d)) &&
                    fabs(values->doubles[i] - d) <= 1e-13 * fmax(1, fabs(d)))) {
            return false;
        }
    }
    return true;
}

static void follow_pytorch(tutti *t, const struct vector *vector, bool sharded)
{
    struct pair values;
    const tutti_param params[2] = {
        { .name = "floats",
                .value = values.floats,
                .count = ELEMENTS,
                .dtype = TUTTI_FLOAT32 },
        { .name = "doubles",
                .value = values.doubles,
                .count = ELEMENTS,
                .dtype = TUTTI_FLOAT64 },
    };
    tutti_optimizer_options options = vector->options;
    tutti_optimizer *optimizer = NULL;
    tutti_reducer *reducer = NULL;
    int check = 0;

    options.size = sizeof options;
    options.prefix = "optimizer";
    options.sharded = sharded;
    for (int i = 0; i < ELEMENTS; i++) {
        values.floats[i] = (float)vector_start[i];
        values.doubles[i] = vector_start[i];
    }
    if (!CHECK(tutti_reducer_create(t, params, 2, NULL, &reducer) == TUTTI_OK) ||
            !CHECK(tutti_optimizer_create(reducer, &options, &optimizer) == TUTTI_OK)) {
        return;
    }
    for (int step = 1; step <= vector_steps[CHECKS - 1]; step++) {
        mark(t, reducer, &values, step);
        (void)CHECK(tutti_optimizer_step(optimizer, NULL) == TUTTI_OK);
        if (step == vector_steps[check]) {
            (void)CHECK(near(&values, vector, check));
            check++;
        }
    }
    (void)CHECK(tutti_optimizer_destroy(optimizer) == TUTTI_OK);
    (void)CHECK(tutti_reducer_destroy(reducer) == TUTTI_OK);
}

static void follow_all(tutti *t, void *user)
{
    const bool *sharded = user;

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        follow_pytorch(t, &vectors[i], *sharded);
    }
}

UNIT_TEST(test_optimizers_end_where_pytorchs_do)
{
    bool sharded = false;

    assert_int_equal(ranks_run(1, follow_all, &sharded), 0);
    sharded = true;
    assert_int_equal(ranks_run(2, follow_all, &sharded), 0);
}

/* ------------------------------------------------------------------- slices */

enum {
    LENGTH = 999
};

struct arrays {
    float value[LENGTH], gradient[LENGTH], moment1[LENGTH], moment2[LENGTH];
};

static void fill(struct arrays *arrays)
{
    for (int i = 0; i < LENGTH; i++) {
        arrays->value[i] = (float)(i % 37 - 18) / 7;
        arrays->gradient[i] = (float)(i % 53 - 26) / 11;
        arrays->moment1[i] = (float)(i % 11) / 13;
        arrays->moment2[i] = (float)(i % 17) / 19;
    }
}

static void run_slice(struct arrays *arrays, int first, int count,
        void (*run)(const struct update_span *, const struct update_terms *))
{
    const struct update_terms terms = { .scale = 0.7,
        .rate = 0.1,
        .momentum = 0.9,
        .nesterov = true,
        .beta1 = 0.9,
        .beta2 = 0.99,
        .scale2 = 3.3,
        .epsilon = 1e-3,
        .decay = 0.1,
        .keep = 0.99 };
    const struct update_span span = { .value = arrays->value + first,
        .gradient = arrays->gradient + first,
        .moment1 = arrays->moment1 + first,
        .moment2 = arrays->moment2 + first,
        .count = count };

    run(&span, &terms);
}

static void compare_slices(
        void (*portable)(const struct update_span *, const struct update_terms *),
        void (*fastest)(const struct update_span *, const struct update_terms *))
{
    static struct arrays whole;
    static struct arrays sliced;

    fill(&whole);
    fill(&sliced);
    run_slice(&whole, 0, LENGTH, portable);
    for (int first = 0, count = 1; first < LENGTH; first += count, count += 3) {
        run_slice(&sliced, first, count < LENGTH - first ? count : LENGTH - first,
                fastest);
    }
    assert_memory_equal(&whole, &sliced, sizeof whole);
}

UNIT_TEST(test_slices_and_processors_do_not_change_bits)
{
    const struct update_kernels *fastest = update_fastest_floats();

    compare_slices(update_floats.sgd, fastest->sgd);
    compare_slices(update_floats.adam, fastest->adam);
    compare_slices(update_floats.moments, fastest->moments);
}

/* ----------------------------------------------------------- learning rates */

UNIT_TEST(test_learning_rates_grow_and_fall)
{
    tutti_schedule schedule = { .kind = TUTTI_SCHEDULE_CONSTANT,
        .learning_rate = tutti_scale_lr(0.125, 8),
        .warmup_from = 0.125,
        .warmup = 7,
        .final_rate = 0.5,
        .steps = 107,
        .period = 10,
        .factor = 0.5 };

    assert_true(tutti_learning_rate(&schedule, -1) == 0.125);
    assert_true(tutti_learning_rate(&schedule, 4) == 0.625);
    assert_true(tutti_learning_rate(&schedule, 7) == 1);
    assert_true(tutti_learning_rate(&schedule, 1000) == 1);
    schedule.kind = TUTTI_SCHEDULE_STEP;
    assert_true(tutti_learning_rate(&schedule, 16) == 1);
    assert_true(tutti_learning_rate(&schedule, 37) == 0.125);
    schedule.kind = TUTTI_SCHEDULE_LINEAR;
    assert_true(tutti_learning_rate(&schedule, 57) == 0.75);
    assert_true(tutti_learning_rate(&schedule, 200) == 0.5);
    schedule.kind = TUTTI_SCHEDULE_COSINE;
    assert_true(tutti_learning_rate(&schedule, 7) == 1);
    assert_true(fabs(tutti_learning_rate(&schedule, 57) - 0.75) < 1e-12);
    assert_true(fabs(tutti_learning_rate(&schedule, 32) -
                        (0.5 + 0.25 * (1 + sqrt(0.5)))) < 1e-12);
    assert_true(tutti_learning_rate(&schedule, 107) == 0.5);
}
