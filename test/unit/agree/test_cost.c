/*
 * What a batch costs: assumptions, measurements, and how far these are believed.
 */
#include "agree/cost.h"
#include "test/unit/unit.h"

static const struct cost nothing_given = { 0 };

static void expect_near(double got, double want)
{
    assert_true(got > 0.99 * want && got < 1.01 * want);
}

/* Batches of 2^first, 2^(first + 1), ... bytes that take alpha + beta n and a delay. */
static void time_batches(
        struct cost_model *model, struct cost truth, int first, int count, double delay)
{
    for (int i = first; i < first + count; i++) {
        const double bytes = (double)((size_t)1 << i);

        cost_sample(model, (size_t)1 << i,
                (int64_t)(truth.alpha_ns + truth.beta_ns * bytes + delay));
    }
}

UNIT_TEST(test_cost_is_fitted_to_the_fastest_batches)
{
    const struct cost truth = { .alpha_ns = 7e3, .beta_ns = 0.05 };
    struct cost_model model;
    struct cost cost;

    cost_init(&model, &nothing_given, false);
    time_batches(&model, truth, 6, 16, 3e6);
    time_batches(&model, truth, 6, 16, 0);
    time_batches(&model, truth, 6, 16, 1e5);
    cost = cost_estimate(&model);
    expect_near(cost.alpha_ns, truth.alpha_ns);
    expect_near(cost.beta_ns, truth.beta_ns);
}

UNIT_TEST(test_cost_of_a_byte_is_not_told_from_batches_of_one_length)
{
    struct cost_model model;
    struct cost cost;

    cost_init(&model, &nothing_given, false);
    for (int i = 0; i < 20; i++) {
        cost_sample(&model, 100000, 50000 + i);
    }
    cost = cost_estimate(&model);
    expect_near(cost.beta_ns, 0.1);
    expect_near(cost.alpha_ns, 40e3);
}

UNIT_TEST(test_cost_is_not_believed_far_from_the_assumption)
{
    struct cost_model model;
    struct cost cost;

    cost_init(&model, &nothing_given, false);
    time_batches(&model, (struct cost){ .alpha_ns = 5e6, .beta_ns = 50 }, 6, 16, 0);
    cost = cost_estimate(&model);
    expect_near(cost.alpha_ns, 160e3);
    expect_near(cost.beta_ns, 0.8);
    cost_init(&model, &nothing_given, false);
    time_batches(&model, (struct cost){ .alpha_ns = 2, .beta_ns = 0.001 }, 6, 16, 0);
    cost = cost_estimate(&model);
    expect_near(cost.alpha_ns, 2.5e3);
    expect_near(cost.beta_ns, 0.0125);
}

UNIT_TEST(test_cost_that_is_given_counts)
{
    const struct cost truth = { .alpha_ns = 7e3, .beta_ns = 0.05 };
    struct cost_model model;
    struct cost cost;

    cost_init(&model, &(struct cost){ .alpha_ns = 1e9 }, false);
    cost = cost_estimate(&model);
    expect_near(cost.alpha_ns, 1e9);
    expect_near(cost.beta_ns, 0.1);
    time_batches(&model, truth, 6, 16, 0);
    cost = cost_estimate(&model);
    expect_near(cost.alpha_ns, 1e9);
    expect_near(cost.beta_ns, truth.beta_ns);
    cost_init(&model, &(struct cost){ .beta_ns = 0.025 }, false);
    expect_near(cost_estimate(&model).beta_ns, 0.025);
    for (int i = 0; i < 20; i++) {
        cost_sample(&model, 1000000, 60000);
    }
    cost = cost_estimate(&model);
    expect_near(cost.beta_ns, 0.025);
    expect_near(cost.alpha_ns, 35e3);
}
