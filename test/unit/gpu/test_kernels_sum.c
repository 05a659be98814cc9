/*
 * The sum kernels, compiled for the host, against the reductions of ops/reduce: the same
 * bits, for every number of operands, type and arithmetic.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ops/gpu/kernels/kernels.h"
#include "ops/reduce/reduce.h"
#include "test/gpusim/bodies.h"
#include "test/unit/gpu/pack_reference.h"
#include "test/unit/unit.h"

#define COUNT_MAX 700
#define STRIDE_EXTRA 24
#define MANY 4095

static const struct kernel_target target = { .sm_count = 1,
    .parameter_bytes = KERNEL_SMALL_BYTES };

static uint64_t random_state = 0x9e3779b97f4a7c15U;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Numbers of many magnitudes, so that every other order of additions gives other bits. */
static void fill(tutti_dtype dtype, unsigned char *elements, size_t count)
{
    const size_t bytes = tutti_dtype_size(dtype);

    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random();
        const double value = ldexp((double)(int64_t)bits, (int)(bits % 12) - 63);
        const float single = (float)value;

        if (dtype == TUTTI_FLOAT64) {
            memcpy(&bits, &value, sizeof value);
        } else if (dtype == TUTTI_FLOAT32) {
            memcpy(&bits, &single, sizeof single);
        } else if (dtype == TUTTI_FLOAT16 && i % 50 != 0) {
            bits &= 0xbfff; /* no infinity, no NaN but for a few */
        } else if (i % 50 != 0) {
            bits = (bits & 0x83ff) | 0x3c00;
        }
        memcpy(elements + i * bytes, &bits, bytes);
    }
}

/* A case: operands in device memory at equal distances, and what is done to them. */
struct sum_case {
    struct reduce_spec spec;
    int operands;
    size_t count;
    size_t shift; /* of the operands, in bytes from a boundary of 16 */
};

static void expect_sum(const struct sum_case *c, const unsigned char *memory,
        size_t stride, unsigned char *expected)
{
    const void **inputs = malloc((size_t)c->operands * sizeof *inputs);
    void *outputs[1] = { expected };

    assert_non_null(inputs);
    for (int k = 0; k < c->operands; k++) {
        inputs[k] = memory + c->shift + (size_t)k * stride;
    }
    reduce_tree(&c->spec, inputs, c->operands, outputs, 1, c->count);
    free(inputs);
}

static void check_sum(const struct sum_case *c)
{
    const size_t bytes = tutti_dtype_size(c->spec.dtype);
    const size_t stride = c->count * bytes + STRIDE_EXTRA;
    const size_t all = c->shift + (size_t)c->operands * stride - STRIDE_EXTRA;
    unsigned char *memory = malloc(all);
    unsigned char *expected = malloc(c->count * bytes);
    unsigned char *output = malloc(c->count * bytes);
    const struct sum_args args = { .operands = (uint64_t)(uintptr_t)(memory + c->shift),
        .stride = stride,
        .output = (uint64_t)(uintptr_t)output,
        .count = c->count,
        .prescale = c->spec.prescale,
        .postscale = c->spec.postscale,
        .operand_count = c->operands,
        .divisor = c->spec.op == TUTTI_AVERAGE ? c->spec.divisor : 1 };
    const struct kernel_launch launch = sum_launch(c->spec.dtype, &args, &target);

    assert_true(memory != NULL && expected != NULL && output != NULL);
    for (int k = 0; k < c->operands; k++) {
        fill(c->spec.dtype, memory + c->shift + (size_t)k * stride, c->count);
    }
    expect_sum(c, memory, stride, expected);
    kernel_body_of(launch.kernel)(&args, launch.grid, launch.threads);
    for (size_t i = 0; i < c->count; i++) {
        if (!pack_same(c->spec.dtype, expected + i * bytes, output + i * bytes)) {
            print_error("%s, %d operands, element %zu of %zu\n",
                    tutti_dtype_name(c->spec.dtype), c->operands, i, c->count);
            assert_memory_equal(expected + i * bytes, output + i * bytes, bytes);
        }
    }
    free(memory);
    free(expected);
    free(output);
}

static const tutti_dtype types[] = { TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT32,
    TUTTI_FLOAT64 };

UNIT_TEST(test_every_number_of_operands)
{
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int n = 1; n <= 70; n++) {
            const struct sum_case c = {
                .spec = { types[t], TUTTI_SUM, 1, 1, 1 }, .operands = n, .count = 33
            };

            check_sum(&c);
        }
    }
}

UNIT_TEST(test_the_most_operands)
{
    assert_int_equal(SUM_OPERANDS_MAX, MANY);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int n = MANY - 4; n <= MANY; n++) {
            const struct sum_case c = {
                .spec = { types[t], TUTTI_SUM, 1, 1, 1 }, .operands = n, .count = 5
            };

            check_sum(&c);
        }
    }
}

UNIT_TEST(test_arithmetic_before_and_after)
{
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int n = 1; n <= 9; n++) {
            const struct sum_case average = { .spec = { types[t], TUTTI_AVERAGE, n, 1,
                                                      1 },
                .operands = n,
                .count = COUNT_MAX };
            const struct sum_case scaled = { .spec = { types[t], TUTTI_AVERAGE, n, 0.3,
                                                     1.7 },
                .operands = n,
                .count = COUNT_MAX };

            check_sum(&average);
            check_sum(&scaled);
        }
    }
}

UNIT_TEST(test_any_alignment_and_length)
{
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (size_t shift = 0; shift < 16; shift++) {
            const struct sum_case c = { .spec = { types[t], TUTTI_SUM, 1, 1, 1 },
                .operands = 5,
                .count = 1 + shift * 40,
                .shift = shift };

            check_sum(&c);
        }
    }
}

/* As the last operand of a gathered block, which the sum replaces. */
UNIT_TEST(test_the_sum_may_replace_an_operand)
{
    float operands[3][100];
    struct sum_args args = { .operands = (uint64_t)(uintptr_t)operands,
        .stride = sizeof operands[0],
        .output = (uint64_t)(uintptr_t)operands[1],
        .count = 100,
        .prescale = 1,
        .postscale = 1,
        .operand_count = 3,
        .divisor = 1 };
    const struct kernel_launch launch = sum_launch(TUTTI_FLOAT32, &args, &target);

    for (int i = 0; i < 100; i++) {
        operands[0][i] = (float)i;
        operands[1][i] = 1000;
        operands[2][i] = 0.5F;
    }
    kernel_body_of(launch.kernel)(&args, launch.grid, launch.threads);
    for (int i = 0; i < 100; i++) {
        assert_true(operands[1][i] == (float)i + 1000 + 0.5F);
    }
}
