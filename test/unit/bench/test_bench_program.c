/*
 * What the steps of the synthetic programs do.
 */
#include <stdint.h>
#include <string.h>

#include "bench/core/program.h"
#include "test/unit/unit.h"

enum {
    TENSORS = 50
};

UNIT_TEST(test_the_first_steps_are_calm)
{
    for (int i = 0; i < BENCH_ADVERSARIES; i++) {
        enum bench_adversary adversary = (enum bench_adversary)i;

        for (uint64_t step = 0; step < BENCH_CALM_STEPS; step++) {
            assert_int_equal(bench_adversity_at(adversary, TENSORS, step, 1).change,
                    BENCH_UNCHANGED);
        }
        assert_int_not_equal(
                bench_adversity_at(adversary, TENSORS, BENCH_CALM_STEPS, 1).change,
                BENCH_UNCHANGED);
    }
}

/* Another one than before, `hold` steps each, and each one once in turn. */
static void expect_each_in_turn(size_t tensors, uint64_t hold)
{
    int times[TENSORS] = { 0 };
    size_t last = tensors;

    for (uint64_t i = 0; i < tensors * hold; i++) {
        struct bench_adversity adversity = bench_adversity_at(
                BENCH_ADVERSARY_COUNT, tensors, BENCH_CALM_STEPS + i, hold);

        assert_int_equal(adversity.change, BENCH_OTHER_COUNT);
        assert_true(adversity.tensor < tensors);
        assert_true((adversity.tensor == last) == (i % hold != 0));
        last = adversity.tensor;
        times[last]++;
    }
    for (size_t i = 0; i < tensors; i++) {
        assert_int_equal(times[i], hold);
    }
}

UNIT_TEST(test_no_step_changes_what_the_last_one_did)
{
    expect_each_in_turn(TENSORS, 1);
    expect_each_in_turn(TENSORS, 3);
    expect_each_in_turn(49, 1);
    expect_each_in_turn(7, 2);
}

UNIT_TEST(test_sets_differ_in_both_ways)
{
    bool seen[TENSORS][2] = { { false } };

    for (uint64_t step = BENCH_CALM_STEPS; step < BENCH_CALM_STEPS + 2 * TENSORS;
            step++) {
        struct bench_adversity adversity =
                bench_adversity_at(BENCH_ADVERSARY_SET, TENSORS, step, 1);

        assert_true(adversity.change == BENCH_LEFT_OUT ||
                adversity.change == BENCH_OTHER_NAME);
        seen[adversity.tensor][adversity.change == BENCH_LEFT_OUT] = true;
    }
    for (size_t i = 0; i < TENSORS; i++) {
        assert_true(seen[i][0] && seen[i][1]);
    }
}

UNIT_TEST(test_a_period_of_training_has_everything_in_its_share)
{
    /* from anywhere */
    for (uint64_t from = 0; from < 3; from++) {
        int late = 0, micro = 0, metrics = 0, evaluations = 0;

        for (uint64_t step = from; step < from + BENCH_TRAINING_PERIOD; step++) {
            struct bench_training training = bench_training_at(step);

            late += training.straggles;
            micro += training.accumulates;
            metrics += training.measures;
            evaluations += training.evaluates;
        }
        assert_int_equal(late, BENCH_TRAINING_PERIOD / 7);
        assert_int_equal(micro, BENCH_TRAINING_PERIOD / 4);
        assert_int_equal(metrics, BENCH_TRAINING_PERIOD / 5);
        assert_int_equal(evaluations, BENCH_TRAINING_PERIOD / 10);
    }
    assert_false(bench_training_at(0).evaluates);
}
