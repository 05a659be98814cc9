/*
 * The check values: exact, different between ranks, and found when they are wrong.
 */
#include <stdint.h>
#include <string.h>

#include "bench/core/pattern.h"
#include "test/unit/unit.h"

#define PERIOD ((size_t)BENCH_PATTERN_PERIOD)

static const tutti_dtype all_dtypes[] = {
#define DTYPE(symbol, number, name, bytes) symbol,
    TUTTI_DTYPE_MAP(DTYPE)
#undef DTYPE
};

static const tutti_reduce_op all_ops[] = { TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MIN,
    TUTTI_MAX, TUTTI_PRODUCT };

/* The value of an element, decoded without the code under test. */
static double decode(const unsigned char *element, tutti_dtype dtype)
{
    uint64_t integer = 0;
    uint32_t bits;
    float single;
    double real;

    if (dtype == TUTTI_FLOAT64) {
        memcpy(&real, element, sizeof real);
        return real;
    }
    memcpy(&integer, element, bench_dtype_bytes(dtype));
    bits = (uint32_t)integer;
    if (dtype == TUTTI_FLOAT16) {
        /* normal numbers: rebias the exponent from 15 to 127 */
        bits = bits == 0 ? 0 : ((bits >> 10) + 112) << 23 | (bits & 0x3ff) << 13;
    } else if (dtype == TUTTI_BFLOAT16) {
        bits <<= 16;
    } else if (dtype != TUTTI_FLOAT32) {
        return (double)integer;
    }
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

static double reduce(tutti_reduce_op op, double left, double right)
{
    if (op == TUTTI_PRODUCT) {
        return left * right;
    }
    if (op == TUTTI_MIN) {
        return left < right ? left : right;
    }
    if (op == TUTTI_MAX) {
        return left > right ? left : right;
    }
    return left + right;
}

static void expect_reduction(const struct bench_operation *operation, int ranks)
{
    size_t bytes = bench_dtype_bytes(operation->dtype);
    struct bench_pattern pattern;
    double result[PERIOD];

    for (int rank = 0; rank < ranks; rank++) {
        bench_pattern_init(&pattern, operation, rank, ranks);
        for (size_t i = 0; i < PERIOD; i++) {
            double value = decode(pattern.input + i * bytes, operation->dtype);

            result[i] = rank == 0 ? value : reduce(operation->op, result[i], value);
        }
    }
    for (size_t i = 0; i < PERIOD; i++) {
        double expected = decode(pattern.expected + i * bytes, operation->dtype);
        double scale = operation->op == TUTTI_AVERAGE ? ranks : 1;

        assert_true(expected * scale == result[i]);
    }
}

static void expect_reductions(const struct bench_operation *operation)
{
    static const int sizes[] = { 1, 2, 3, 4, 5, 7, 16, 60, 61, 64, 100 };

    if (bench_operation_is_valid(operation)) {
        for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
            expect_reduction(operation, sizes[n]);
        }
    }
}

UNIT_TEST(test_expected_is_the_exact_reduction_of_the_inputs)
{
    for (size_t d = 0; d < sizeof all_dtypes / sizeof all_dtypes[0]; d++) {
        for (size_t o = 0; o < sizeof all_ops / sizeof all_ops[0]; o++) {
            struct bench_operation operation = {
                .collective = TUTTI_ALLREDUCE, .dtype = all_dtypes[d], .op = all_ops[o]
            };

            expect_reductions(&operation);
        }
    }
}

static void expect_different_inputs(const struct bench_operation *operation, int ranks)
{
    size_t bytes = PERIOD * bench_dtype_bytes(operation->dtype);

    for (int rank = 0; rank < ranks; rank++) {
        struct bench_pattern pattern;

        bench_pattern_init(&pattern, operation, rank, ranks);
        for (int lower = 0; lower < rank; lower++) {
            struct bench_pattern other;

            bench_pattern_init(&other, operation, lower, ranks);
            assert_memory_not_equal(pattern.input, other.input, bytes);
        }
    }
}

/* A rank counted in another's place must show, whatever the type. */
UNIT_TEST(test_inputs_differ_between_ranks)
{
    for (size_t d = 0; d < sizeof all_dtypes / sizeof all_dtypes[0]; d++) {
        struct bench_operation operation = { .collective = TUTTI_ALLREDUCE,
            .dtype = all_dtypes[d],
            .op = all_dtypes[d] == TUTTI_BOOL ? TUTTI_MAX : TUTTI_SUM };

        expect_different_inputs(&operation, 7);
    }
}

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
