/*
 * Contents of tensors.
 */
#include "test/batch/pattern.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"

static bool is_exact;

void pattern_set_exact(bool exact)
{
    is_exact = exact;
}

uint64_t pattern_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/*
 * Integers use all bits, since sums and products wrap; but products are of odd numbers,
 * so that no factor gets lost, and the sums of 64-bit averages must not wrap.
 */
static uint64_t integer_bits(const struct pattern *pattern, uint64_t random)
{
    if (pattern->op == TUTTI_PRODUCT) {
        return random | 1;
    }
    if ((pattern->op == TUTTI_AVERAGE || pattern->op == TUTTI_SET_AVERAGE) &&
            tutti_dtype_size(pattern->dtype) == 8) {
        return dtype_is_signed_integer(pattern->dtype)
                ? (uint64_t)((int64_t)random / 64)
                : random / 64;
    }
    return random;
}

/* One rank in eight decides, so that most results depend on a single rank. */
static uint64_t bool_bits(const struct pattern *pattern, uint64_t random)
{
    const bool rare = random % 8 == 0;

    return (pattern->op == TUTTI_MAX) == rare ? 1 : 0;
}

/*
 * Floats have a full fraction, so that sums are inexact and their bits depend on the tree,
 * and exponents small enough for products of all ranks.
 */
static double real_value(const struct pattern *pattern, uint64_t random)
{
    const int spread = pattern->op == TUTTI_PRODUCT ? 2 : 7;
    const int digits = reference_digits(pattern->dtype);
    const uint64_t fraction =
            (random >> 11) >> (53 - digits) | UINT64_C(1) << (digits - 1);
    const int exponent = (int)(random % 1024) % spread - spread / 2 - (digits - 1);

    return ldexp((double)fraction, exponent) * ((random >> 10 & 1) != 0 ? -1 : 1);
}

static void make_element(
        const struct pattern *pattern, int rank, size_t index, void *element)
{
    const uint64_t random =
            pattern_mix((uint64_t)pattern->salt << 32 | (uint64_t)rank, index);
    uint64_t bits = random;

    if (dtype_is_real(pattern->dtype)) {
        reference_store_real(pattern->dtype,
                is_exact ? (double)(1 + random % 3) : real_value(pattern, random),
                element);
        return;
    }
    if (pattern->dtype == TUTTI_BOOL) {
        bits = bool_bits(pattern, random);
    } else if (reference_accepts(pattern->dtype, pattern->op)) {
        bits = integer_bits(pattern, random);
    }
    memcpy(element, &bits, tutti_dtype_size(pattern->dtype));
}

/* Continues the first period of `count` elements of so many bytes to the end. */
static void repeat(void *data, size_t bytes, size_t count)
{
    char *elements = data;

    for (size_t done = PATTERN_PERIOD; done < count; done += PATTERN_PERIOD) {
        const size_t some =
                count - done < PATTERN_PERIOD ? count - done : PATTERN_PERIOD;

        memcpy(elements + done * bytes, elements, some * bytes);
    }
}

static size_t one_period(size_t count)
{
    return count < PATTERN_PERIOD ? count : PATTERN_PERIOD;
}

void pattern_fill(const struct pattern *pattern, int rank, void *data, size_t count)
{
    const size_t bytes = tutti_dtype_size(pattern->dtype);

    for (size_t i = 0; i < one_period(count); i++) {
        make_element(pattern, rank, i, (char *)data + i * bytes);
    }
    repeat(data, bytes, count);
}

void pattern_expect(const struct pattern *pattern, int n, struct scales scales,
        void *data, size_t count)
{
    const size_t bytes = tutti_dtype_size(pattern->dtype);
    const size_t period = one_period(count);
    const void **inputs = must_alloc((size_t)n, sizeof *inputs);
    int *ranks = must_alloc((size_t)n, sizeof *ranks);
    char *memory = must_alloc((size_t)n * period, bytes);
    const struct reduction reduction = { .dtype = pattern->dtype,
        .op = pattern->op,
        .prescale = scales.pre,
        .postscale = scales.post,
        .n = n,
        .inputs = inputs,
        .ranks = ranks,
        .folds = reference_folds() };

    for (int i = 0; i < n; i++) {
        char *input = memory + (size_t)i * period * bytes;

        pattern_fill(pattern, i, input, period);
        inputs[i] = input;
        ranks[i] = i;
    }
    reference_reduce(&reduction, data, period);
    repeat(data, bytes, count);
    free(inputs);
    free(ranks);
    free(memory);
}

void pattern_shuffle(int *order, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int i = n - 1; i > 0; i--) {
        const int k = (int)(pattern_mix(seed, (uint64_t)i) % (uint64_t)(i + 1));
        const int other = order[k];

        order[k] = order[i];
        order[i] = other;
    }
}
