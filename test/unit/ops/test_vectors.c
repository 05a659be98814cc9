/*
 * What test_reduce.c leaves open about the vector kernels that this processor has: every
 * value of a 16-bit float, bit by bit as by the portable kernels; the bytes behind an
 * array; the choice of kernels.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "ops/reduce/half.h"
#include "ops/reduce/reduce.h"
#include "test/unit/unit.h"

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int fraction_bits(tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT16 ? 10 : 7;
}

static uint32_t exponent_bits(tutti_dtype dtype)
{
    return 0x7fffU & UINT32_MAX << fraction_bits(dtype);
}

/* Of a 16-bit float. */
static bool is_nan_element(tutti_dtype dtype, uint32_t bits)
{
    return (bits & 0x7fffU) > exponent_bits(dtype);
}

static const enum config_kernels vector_kernels[] = { CONFIG_KERNELS_AVX2,
    CONFIG_KERNELS_AVX512, CONFIG_KERNELS_NEON };

/* Runs a test with every set that there is, or says that there is none. */
static void with_every_set(void (*test)(enum config_kernels which))
{
    bool found = false;

    for (size_t i = 0; i < sizeof vector_kernels / sizeof vector_kernels[0]; i++) {
        if (reduce_has(vector_kernels[i])) {
            found = true;
            test(vector_kernels[i]);
        }
    }
    ASSERT_OK(reduce_use(CONFIG_KERNELS_AUTO));
    if (!found) {
        print_message("this processor or this build has no vector kernels\n");
        skip();
    }
}

/* All values of a 16-bit float, joined with `other`: got by vectors, want portably. */
static void join_with_all(tutti_dtype dtype, tutti_reduce_op op, uint16_t other,
        enum config_kernels which, uint16_t *got, uint16_t *want)
{
    static uint16_t all[UINT16_MAX + 1], others[UINT16_MAX + 1];
    const struct reduce_spec spec = {
        .dtype = dtype, .op = op, .divisor = 2, .prescale = 1, .postscale = 1
    };

    for (size_t i = 0; i <= UINT16_MAX; i++) {
        all[i] = (uint16_t)i;
        others[i] = other;
    }
    ASSERT_OK(reduce_use(CONFIG_KERNELS_SCALAR));
    reduce_tree(&spec, (const void *[]){ all, others }, 2, (void *[]){ want }, 1,
            UINT16_MAX + 1);
    ASSERT_OK(reduce_use(which));
    reduce_tree(&spec, (const void *[]){ all, others }, 2, (void *[]){ got }, 1,
            UINT16_MAX + 1);
}

/* x + -0 is x; a NaN keeps its sign and payload and is made quiet. */
static void every_value(enum config_kernels which)
{
    static uint16_t got[UINT16_MAX + 1], want[UINT16_MAX + 1];

    for (tutti_dtype dtype = TUTTI_FLOAT16; dtype <= TUTTI_BFLOAT16; dtype++) {
        const uint16_t quiet = (uint16_t)(1 << (fraction_bits(dtype) - 1));

        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_PRODUCT; op++) {
            join_with_all(dtype, op, 0x8000, which, got, want);
            assert_memory_equal(got, want, sizeof got);
        }
        join_with_all(dtype, TUTTI_SUM, 0x8000, which, got, want);
        for (uint32_t i = 0; i <= UINT16_MAX; i++) {
            assert_int_equal(got[i], i | (is_nan_element(dtype, i) ? quiet : 0));
        }
    }
}

UNIT_TEST(test_every_16_bit_float_is_converted_as_by_the_portable_kernels)
{
    with_every_set(every_value);
}

/* Any value, or one near 1. */
static uint16_t random_half(tutti_dtype dtype, uint64_t *random)
{
    const uint32_t bits = (uint32_t)next_random(random);
    const uint32_t exponents = exponent_bits(dtype);
    const uint32_t exponent_of_1 = exponents >> 1 & exponents;

    return (uint16_t)(bits >> 31 != 0 ? bits : (bits & ~exponents) | exponent_of_1);
}

/* Products of two values need up to twice the fraction bits: ties, overflow, underflow. */
static void rounding(enum config_kernels which)
{
    static uint16_t got[UINT16_MAX + 1], want[UINT16_MAX + 1];
    uint64_t random = 5;

    for (int round = 0; round < 60; round++) {
        const tutti_dtype dtype = round % 2 == 0 ? TUTTI_FLOAT16 : TUTTI_BFLOAT16;
        const tutti_reduce_op op = round % 3 == 0 ? TUTTI_SUM : TUTTI_PRODUCT;
        const uint16_t other = random_half(dtype, &random);

        join_with_all(dtype, op, other, which, got, want);
        for (size_t i = 0; i <= UINT16_MAX; i++) {
            if (!is_nan_element(dtype, got[i]) || !is_nan_element(dtype, want[i])) {
                assert_int_equal(got[i], want[i]);
            }
        }
    }
}

UNIT_TEST(test_results_are_rounded_as_by_the_portable_kernels)
{
    with_every_set(rounding);
}

/* Memory whose last byte is the last that may be touched; page by page. */
static unsigned char *page_before_a_hole(size_t page)
{
    unsigned char *memory = mmap(
            NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    return memory;
}

static void arrays_before_a_hole(enum config_kernels which)
{
    enum {
        OPERANDS = 5
    };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory[OPERANDS];
    const void *from[OPERANDS];

    ASSERT_OK(reduce_use(which));
    for (int k = 0; k < OPERANDS; k++) {
        memory[k] = page_before_a_hole(page);
    }
    for (tutti_dtype dtype = TUTTI_UINT8; dtype <= TUTTI_BOOL; dtype++) {
        const struct reduce_spec spec = {
            .dtype = dtype, .op = TUTTI_MAX, .prescale = 1, .postscale = 1
        };

        for (size_t count = 0; count <= 150; count++) {
            const size_t bytes = count * tutti_dtype_size(dtype);

            for (int k = 0; k < OPERANDS; k++) {
                from[k] = memory[k] + page - bytes;
            }
            for (int n = 2; n <= OPERANDS; n++) { /* n - 1: in place */
                reduce_tree(&spec, from, n, (void *[]){ memory[n - 1] + page - bytes },
                        1, count);
            }
        }
    }
    for (int k = 0; k < OPERANDS; k++) {
        assert_int_equal(munmap(memory[k], 2 * page), 0);
    }
}

UNIT_TEST(test_nothing_behind_an_array_is_touched)
{
    with_every_set(arrays_before_a_hole);
}

static uint16_t narrow_one(tutti_dtype dtype, float value)
{
    return dtype == TUTTI_FLOAT16 ? half_from_float(value) : bfloat_from_float(value);
}

static float widen_one(tutti_dtype dtype, uint16_t value)
{
    return dtype == TUTTI_FLOAT16 ? half_to_float(value) : bfloat_to_float(value);
}

/* `count` values of all kinds to 16 bits, and from the last half of an array back into it. */
static void convert(
        tutti_dtype dtype, size_t count, unsigned char *floats, unsigned char *halves)
{
    static float values[UINT16_MAX];
    static uint16_t rounded[UINT16_MAX];
    uint64_t random = count;

    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)next_random(&random);

        values[i] =
                i % 3 == 0 ? widen_one(dtype, (uint16_t)bits) : float_from_bits(bits);
        rounded[i] = narrow_one(dtype, values[i]);
    }
    memcpy(floats, values, count * sizeof *values);
    reduce_narrow(dtype, halves, floats, count);
    assert_memory_equal(halves, rounded, count * sizeof *rounded);
    memcpy(floats + count * sizeof *rounded, rounded, count * sizeof *rounded);
    reduce_widen(dtype, floats, floats + count * sizeof *rounded, count);
    for (size_t i = 0; i < count; i++) {
        values[i] = widen_one(dtype, rounded[i]);
    }
    assert_memory_equal(floats, values, count * sizeof *values);
}

static void convert_before_a_hole(enum config_kernels which)
{
    static const size_t counts[] = { 511, 512, 513, 1023 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *floats = page_before_a_hole(page);
    unsigned char *halves = page_before_a_hole(page);

    ASSERT_OK(reduce_use(which));
    for (tutti_dtype dtype = TUTTI_FLOAT16; dtype <= TUTTI_BFLOAT16; dtype++) {
        for (size_t count = 0; count < 100 + sizeof counts / sizeof *counts; count++) {
            const size_t some = count < 100 ? count : counts[count - 100];

            convert(dtype, some, floats + page - some * sizeof(float),
                    halves + page - some * sizeof(uint16_t));
        }
    }
    assert_int_equal(munmap(floats, 2 * page), 0);
    assert_int_equal(munmap(halves, 2 * page), 0);
}

UNIT_TEST(test_arrays_are_converted_as_their_elements_are)
{
    convert_before_a_hole(CONFIG_KERNELS_SCALAR);
    with_every_set(convert_before_a_hole);
}

UNIT_TEST(test_the_choice_is_kept_and_what_is_missing_is_refused)
{
    bool vectors = false;

    ASSERT_OK(reduce_use(CONFIG_KERNELS_SCALAR));
    assert_int_equal(reduce_in_use(), CONFIG_KERNELS_SCALAR);
    for (size_t i = 0; i < sizeof vector_kernels / sizeof vector_kernels[0]; i++) {
        const enum config_kernels before = reduce_in_use();
        const enum config_kernels which = vector_kernels[i];

        if (reduce_has(which)) {
            vectors = true;
            ASSERT_OK(reduce_use(which));
            assert_int_equal(reduce_in_use(), which);
        } else {
            assert_int_equal(reduce_use(which), TUTTI_ERR_CONFIG);
            assert_non_null(strstr(tutti_last_error(), "kernels cannot be "));
            assert_int_equal(reduce_in_use(), before);
        }
    }
    ASSERT_OK(reduce_use(CONFIG_KERNELS_AUTO));
    assert_true(vectors == (reduce_in_use() != CONFIG_KERNELS_SCALAR));
}
