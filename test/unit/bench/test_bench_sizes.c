/*
 * Sizes, sweeps and statistics.
 */
#include <stdint.h>

#include "bench/core/arithmetic.h"
#include "bench/core/sizes.h"
#include "bench/core/summary.h"
#include "test/unit/unit.h"

static void test_sizes_with_suffixes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        { "0", 0 },
        { "4", 4 },
        { "64k", 65536 },
        { "32M", UINT64_C(32) << 20 },
        { "3g", UINT64_C(3) << 30 },
        { "18446744073709551615", UINT64_MAX },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = 1;

        assert_true(bench_size_parse(rows[i].text, &bytes));
        assert_int_equal(bytes, rows[i].bytes);
    }
}

static void test_bad_sizes_are_refused(void **state)
{
    static const char *const rows[] = { "", "k", "-1", "+1", " 1", "1 ", "1kb", "1.5k",
        "8Q", "0x10", "18446744073709551616", "99999999999999999999", "17179869184g" };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = 77;

        assert_false(bench_size_parse(rows[i], &bytes));
        assert_int_equal(bytes, 77);
    }
}

static void test_sweep_multiplies_up_to_the_last(void **state)
{
    struct bench_sweep sweep = { .first = 8, .last = 32, .factor = 2 };
    uint64_t bytes = sweep.first;

    (void)state;
    assert_true(bench_sweep_next(&sweep, &bytes));
    assert_int_equal(bytes, 16);
    assert_true(bench_sweep_next(&sweep, &bytes));
    assert_int_equal(bytes, 32);
    assert_false(bench_sweep_next(&sweep, &bytes));
    assert_int_equal(bytes, 32);
}

static void test_sweep_adds_a_step(void **state)
{
    struct bench_sweep sweep = { .first = 10, .last = 25, .factor = 2, .step = 10 };
    uint64_t bytes = sweep.first;

    (void)state;
    assert_true(bench_sweep_next(&sweep, &bytes));
    assert_int_equal(bytes, 20);
    assert_false(bench_sweep_next(&sweep, &bytes));
}

static void test_sweep_ends_at_zero_and_at_overflow(void **state)
{
    struct bench_sweep sweep = { .last = UINT64_MAX, .factor = 2 };
    uint64_t zero = 0;
    uint64_t large = UINT64_C(1) << 63;

    (void)state;
    assert_false(bench_sweep_next(&sweep, &zero));
    assert_false(bench_sweep_next(&sweep, &large));
}

static void test_iterations_fall_with_size(void **state)
{
    (void)state;
    assert_int_equal(bench_default_iterations(4), 1000);
    assert_int_equal(bench_default_iterations(1024000), 100);
    assert_int_equal(bench_default_iterations(UINT64_C(16) << 20), 20);
    assert_int_equal(bench_default_iterations(UINT64_MAX), 5);
}

static void test_summary_of_an_odd_number(void **state)
{
    double samples[] = { 5, 1, 3 };
    struct bench_summary summary = bench_summarise(samples, 3);

    (void)state;
    assert_true(summary.min == 1 && summary.median == 3 && summary.max == 5);
    assert_true(summary.mean == 3 && summary.p99 == 5);
}

static void test_summary_of_an_even_number(void **state)
{
    double samples[] = { 4, 1, 2, 9 };
    struct bench_summary summary = bench_summarise(samples, 4);

    (void)state;
    assert_true(summary.median == 3 && summary.mean == 4);
}

static void test_p99_leaves_one_percent_above(void **state)
{
    double samples[200];
    struct bench_summary summary;

    (void)state;
    for (int i = 0; i < 200; i++) {
        samples[i] = 200 - i;
    }
    summary = bench_summarise(samples, 200);
    assert_true(summary.p99 == 198);
    assert_true(bench_summarise(samples, 0).median == 0);
}

static void test_bandwidths(void **state)
{
    (void)state;
    assert_true(bench_algorithm_bandwidth(2000, 1) == 2);
    assert_true(bench_algorithm_bandwidth(2000, 0) == 0);
    assert_true(bench_bus_factor(TUTTI_ALLREDUCE, 4) == 1.5);
    assert_true(bench_bus_factor(TUTTI_BROADCAST, 4) == 1);
    assert_true(bench_bus_factor(TUTTI_REDUCE, 4) == 1);
    assert_true(bench_bus_factor(TUTTI_REDUCESCATTER, 4) == 0.75);
    assert_true(bench_bus_factor(TUTTI_ALLGATHER, 4) == 0.75);
    assert_true(bench_bus_factor(TUTTI_ALLTOALL, 4) == 0.75);
    assert_true(bench_bus_factor(TUTTI_GATHER, 4) == 0.75);
    assert_true(bench_bus_factor(TUTTI_SCATTER, 4) == 0.75);
}

static void test_arithmetic_stays_finite_and_converges(void **state)
{
    double result = bench_arithmetic(10);

    (void)state;
    assert_true(result > 7.999 && result < 8.001);
    assert_true(bench_arithmetic_rate() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_with_suffixes),
        cmocka_unit_test(test_bad_sizes_are_refused),
        cmocka_unit_test(test_sweep_multiplies_up_to_the_last),
        cmocka_unit_test(test_sweep_adds_a_step),
        cmocka_unit_test(test_sweep_ends_at_zero_and_at_overflow),
        cmocka_unit_test(test_iterations_fall_with_size),
        cmocka_unit_test(test_summary_of_an_odd_number),
        cmocka_unit_test(test_summary_of_an_even_number),
        cmocka_unit_test(test_p99_leaves_one_percent_above),
        cmocka_unit_test(test_bandwidths),
        cmocka_unit_test(test_arithmetic_stays_finite_and_converges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
