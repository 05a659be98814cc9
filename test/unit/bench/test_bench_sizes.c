/*
 * Sizes, sweeps and statistics.
 */
#include <math.h>
#include <stdint.h>

#include "bench/core/arithmetic.h"
#include "bench/core/sizes.h"
#include "bench/core/summary.h"
#include "test/unit/unit.h"

UNIT_TEST(test_bad_sizes_are_refused)
{
    static const char *const rows[] = { "", "k", "-1", "+1", " 1", "1 ", "1kb", "1.5k",
        "8Q", "0x10", "18446744073709551616", "99999999999999999999", "17179869184g" };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = 77;

        assert_false(bench_size_parse(rows[i], &bytes));
        assert_int_equal(bytes, 77);
    }
}

UNIT_TEST(test_sweep_multiplies_up_to_the_last)
{
    struct bench_sweep sweep = { .first = 8, .last = 32, .factor = 2 };
    uint64_t bytes = sweep.first;

    assert_true(bench_sweep_next(&sweep, &bytes));
    assert_int_equal(bytes, 16);
    assert_true(bench_sweep_next(&sweep, &bytes));
    assert_int_equal(bytes, 32);
    assert_false(bench_sweep_next(&sweep, &bytes));
    assert_int_equal(bytes, 32);
}

UNIT_TEST(test_sweep_ends_at_zero_and_at_overflow)
{
    struct bench_sweep sweep = { .last = UINT64_MAX, .factor = 2 };
    uint64_t zero = 0;
    uint64_t large = UINT64_C(1) << 63;

    assert_false(bench_sweep_next(&sweep, &zero));
    assert_false(bench_sweep_next(&sweep, &large));
}

UNIT_TEST(test_p99_leaves_one_percent_above)
{
    double samples[200];
    struct bench_summary summary;

    for (int i = 0; i < 200; i++) {
        samples[i] = 200 - i;
    }
    summary = bench_summarise(samples, 200);
    assert_true(summary.p99 == 198);
    assert_true(bench_summarise(samples, 0).median == 0);
}

/* Which of the sorted samples are the ends: exact to 70, then Le Boudec's approximation. */
UNIT_TEST(test_interval_of_the_median)
{
    static const struct {
        int count, low, high; /* 0: there is none */
    } rows[] = { { 1, 0, 0 }, { 5, 0, 0 }, { 6, 1, 6 }, { 8, 1, 8 }, { 9, 2, 8 },
        { 14, 3, 12 }, { 17, 5, 13 }, { 20, 6, 15 }, { 50, 18, 33 }, { 70, 27, 44 },
        { 71, 27, 45 }, { 100, 40, 61 } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double samples[100];
        struct bench_summary summary;

        for (int k = 0; k < rows[i].count; k++) {
            samples[k] = rows[i].count - k;
        }
        summary = bench_summarise(samples, (size_t)rows[i].count);
        if (rows[i].low == 0) {
            assert_true(isnan(summary.low) && isnan(summary.high));
        } else {
            assert_int_equal((int)summary.low, rows[i].low);
            assert_int_equal((int)summary.high, rows[i].high);
        }
    }
}

UNIT_TEST(test_bandwidths)
{
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
