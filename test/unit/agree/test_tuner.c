/*
 * The search for settings, on simulated machines: what a step takes is a function of the
 * settings, with noise and with disturbances that last.
 */
#include <math.h>
#include <string.h>

#include "agree/tuner.h"
#include "test/sim/rng.h"
#include "test/unit/unit.h"

enum {
    STEPS_MAX = 900,
    BLOCK = 10
};

static const uint64_t sizes[] = { 1, 64, 256, 1024, 4096, 16384 };

/** What a step takes with some settings, in ns, without noise. */
typedef double (*step_time)(const struct tuning *tuning);

static double value_of(const struct tuning *tuning, enum tuning_knob knob, double is)
{
    return tuning->values[knob] == 0 ? is : (double)tuning->values[knob];
}

static double flat(const struct tuning *tuning)
{
    (void)tuning;
    return 1e6;
}

/* Best at 4096; the default, 1, takes five times as long. */
static double slow_default(const struct tuning *tuning)
{
    const double steps = log2(value_of(tuning, TUNING_FUSION_BYTES, 1)) / 2;

    return 1e6 * (1 + fabs(steps - 6) * 2 / 3);
}

/* Best at 64, and with the second choice of an algorithm. */
static double small_and_doubling(const struct tuning *tuning)
{
    const double size = log2(value_of(tuning, TUNING_FUSION_BYTES, 1024) / 64);
    const double algorithm = tuning->values[TUNING_ALGORITHM] == 3 ? 0 : 2e5;

    return 1e6 + 1e5 * size * size + algorithm;
}

/* All other settings are worse. */
static double best_default(const struct tuning *tuning)
{
    double ns = 1e6;

    for (int k = 0; k < TUNING_COUNT; k++) {
        ns += tuning->values[k] != 0 ? 1e5 : 0;
    }
    return ns;
}

static void set_up(struct tuner *tuner, uint64_t is)
{
    *tuner = (struct tuner){ .knobs[TUNING_ALGORITHM] = {
                                     .values = { 0, 2, 3 }, .count = 3 } };
    tuner_knob_fill(&tuner->knobs[TUNING_FUSION_BYTES], sizes, 6, is, 1 << 20);
    tuner_knob_fill(&tuner->knobs[TUNING_INFLIGHT], (const uint64_t[]){ 1, 2, 4, 8 }, 4,
            4, 1 << 20);
    tuner_begin(tuner, BLOCK, STEPS_MAX);
}

/* Steps until the end. `noise` is a share; every 50th step is disturbed. */
static int search(struct tuner *tuner, step_time machine, double noise, uint64_t seed)
{
    struct rng rng = { seed };
    int steps = 0;

    while (tuner->state != TUNER_DONE) {
        const struct tuning tuning = tuner_settings(tuner);
        const double share = (double)rng_below(&rng, 1000) / 500 - 1;
        const double spike = rng_below(&rng, 50) == 0 ? 20e6 : 0;

        assert_in_range(++steps, 1, STEPS_MAX);
        (void)tuner_step(
                tuner, (int64_t)(machine(&tuning) * (1 + noise * share) + spike));
    }
    return steps;
}

UNIT_TEST(test_the_default_is_among_the_values)
{
    struct tuner_knob knob;

    tuner_knob_fill(&knob, sizes, 6, 300, 4096);
    assert_int_equal(knob.count, 6);
    assert_int_equal(knob.start, 3);
    assert_int_equal(knob.values[2], 256);
    assert_int_equal(knob.values[3], 0);
    assert_int_equal(knob.values[4], 1024);
    tuner_knob_fill(&knob, sizes, 6, 1 << 20, UINT64_MAX);
    assert_int_equal(knob.start, 6);
    tuner_knob_fill(&knob, sizes, 6, 1, UINT64_MAX);
    assert_int_equal(knob.start, 0);
    assert_int_equal(knob.values[1], 64);
}

UNIT_TEST(test_a_bad_default_is_mended)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct tuner tuner;

        set_up(&tuner, 1);
        (void)search(&tuner, slow_default, 0.05, seed);
        assert_int_equal(tuner_settings(&tuner).values[TUNING_FUSION_BYTES], 4096);
        assert_true(tuner.gain > 0.75 && tuner.gain < 0.85);
    }
}

UNIT_TEST(test_smaller_values_and_choices_are_found)
{
    struct tuner tuner;
    struct tuning found;

    set_up(&tuner, 1024);
    (void)search(&tuner, small_and_doubling, 0.03, 7);
    found = tuner_settings(&tuner);
    assert_int_equal(found.values[TUNING_FUSION_BYTES], 64);
    assert_int_equal(found.values[TUNING_ALGORITHM], 3);
    assert_int_equal(found.values[TUNING_INFLIGHT], 0);
}

/* Also under noise larger than what is looked for, the defaults stay. */
UNIT_TEST(test_the_defaults_stay_where_nothing_is_better)
{
    static const step_time machines[] = { flat, best_default };
    static const double noises[] = { 0, 0.05, 0.3, 0.9 };

    for (size_t m = 0; m < 2; m++) {
        for (size_t n = 0; n < 4; n++) {
            for (uint64_t seed = 1; seed <= 50; seed++) {
                struct tuner tuner;
                const struct tuning none = { 0 };
                struct tuning found;

                set_up(&tuner, 256);
                (void)search(&tuner, machines[m], noises[n], seed);
                found = tuner_settings(&tuner);
                assert_memory_equal(&found, &none, sizeof none);
                assert_true(tuner.gain == 0);
            }
        }
    }
}

/* From some step on the machine is twice as fast: no setting is to be praised for it. */
UNIT_TEST(test_a_change_of_the_machine_is_no_gain)
{
    for (int change = 5; change < 250; change++) {
        const struct tuning none = { 0 };
        struct tuning found;
        struct tuner tuner;
        int steps = 0;

        set_up(&tuner, 256);
        while (tuner.state != TUNER_DONE) {
            (void)tuner_step(&tuner, steps++ < change ? 2000000 : 1000000);
        }
        found = tuner_settings(&tuner);
        assert_memory_equal(&found, &none, sizeof none);
    }
}

/* It ends in time with what has won so far, or without a knob at once. */
UNIT_TEST(test_the_steps_are_bounded)
{
    struct tuner tuner;

    for (int most = 50; most < 400; most += 7) {
        set_up(&tuner, 1);
        tuner_begin(&tuner, BLOCK, most);
        assert_in_range(search(&tuner, slow_default, 0.05, 3), 1, most);
        assert_true(tuner.gain >= 0);
    }
    tuner = (struct tuner){ .block = BLOCK };
    tuner_begin(&tuner, BLOCK, 100);
    assert_int_equal(tuner.state, TUNER_DONE);
}

UNIT_TEST(test_a_search_that_is_stopped_has_what_won_twice)
{
    struct tuner tuner;
    const struct tuning none = { 0 };
    struct tuning found;

    set_up(&tuner, 1);
    for (int i = 0; i < TUNER_SKIPPED + BLOCK; i++) {
        (void)tuner_step(&tuner, 5000000);
    }
    assert_int_equal(tuner.state, TUNER_TRIAL);
    tuner_stop(&tuner);
    found = tuner_settings(&tuner);
    assert_memory_equal(&found, &none, sizeof none);
    assert_false(tuner_step(&tuner, 1));
}
