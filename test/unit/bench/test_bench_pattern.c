/*
 * The check values are found when they are wrong.
 */
#include <stdint.h>

#include "bench/core/pattern.h"
#include "test/unit/unit.h"

#define PERIOD ((size_t)BENCH_PATTERN_PERIOD)

/* One rank: what is filled in is also what is expected. */
static struct bench_pattern pattern_of_one(void)
{
    struct bench_operation operation = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM
    };
    struct bench_pattern pattern;

    bench_pattern_init(&pattern, &operation, 0, 1);
    return pattern;
}

UNIT_TEST(test_fill_is_right_for_any_length_and_phase)
{
    struct bench_pattern pattern = pattern_of_one();
    float buffer[3 * PERIOD];

    for (uint64_t count = 0; count <= 3 * PERIOD; count++) {
        for (uint64_t phase = 0; phase < PERIOD + 2; phase += 13) {
            bench_pattern_fill(&pattern, buffer, count, phase);
            assert_int_equal(
                    bench_pattern_count_wrong(&pattern, buffer, count, phase), 0);
        }
    }
}

UNIT_TEST(test_every_wrong_element_is_counted)
{
    struct bench_pattern pattern = pattern_of_one();
    float buffer[3 * PERIOD];

    bench_pattern_fill(&pattern, buffer, 3 * PERIOD, 5);
    buffer[0] += 1;
    buffer[PERIOD] += 1;
    buffer[3 * PERIOD - 1] += 1;
    assert_int_equal(bench_pattern_count_wrong(&pattern, buffer, 3 * PERIOD, 5), 3);
}
