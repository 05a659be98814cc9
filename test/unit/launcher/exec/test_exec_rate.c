/*
 * How much of a rank's output reaches the console.
 */

#include "launcher/exec/rate.h"
#include "test/unit/unit.h"

static const int64_t second = 1000000000;

UNIT_TEST(test_without_a_limit_all_passes)
{
    struct rate rate;

    rate_init(&rate, 0, 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(rate_take(&rate, 1 << 20, 0));
    }
    assert_true(rate_due(&rate) == INT64_MAX);
}

UNIT_TEST(test_what_is_too_much_is_counted)
{
    struct rate rate;
    int passed = 0;

    rate_init(&rate, 1000, 5);
    for (int i = 0; i < 30; i++) {
        passed += rate_take(&rate, 100, 5) ? 1 : 0;
    }
    assert_int_equal(passed, 10);
    assert_true(rate_due(&rate) == 5 + second);
    assert_int_equal(rate_told(&rate), 20);
    assert_int_equal(rate_told(&rate), 0);
    assert_true(rate_due(&rate) == INT64_MAX);
}

UNIT_TEST(test_credit_returns_with_time_up_to_a_second)
{
    static const struct {
        int64_t wait;
        int passed;
    } cases[] = {
        { .wait = second / 2, .passed = 5 },
        { .wait = second, .passed = 10 },
        { .wait = 100 * second, .passed = 10 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rate rate;
        int passed = 0;

        rate_init(&rate, 1000, 0);
        assert_true(rate_take(&rate, 1000, 0));
        for (int k = 0; k < 30; k++) {
            passed += rate_take(&rate, 100, cases[i].wait) ? 1 : 0;
        }
        assert_int_equal(passed, cases[i].passed);
    }
}

UNIT_TEST(test_a_line_longer_than_the_limit_passes_alone)
{
    struct rate rate;

    rate_init(&rate, 1000, 0);
    assert_true(rate_take(&rate, 3000, 0));
    assert_false(rate_take(&rate, 1, second));
    assert_true(rate_take(&rate, 1, 3 * second + 1));
}

/* Many small steps must add up to the same credit as a large one. */
UNIT_TEST(test_small_steps_of_time_lose_no_credit)
{
    struct rate rate;
    int passed = 0;

    rate_init(&rate, 1000, 0);
    assert_true(rate_take(&rate, 1000, 0));
    for (int64_t now = 0; now <= second; now += second / 2500) {
        passed += rate_take(&rate, 100, now) ? 1 : 0;
    }
    assert_in_range(passed, 5, 10);
}
