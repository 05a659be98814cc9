/*
 * What an allreduce must give.
 *
 * With groups (hierarchy in docs/numerics.md) the partial result of each is stored as an
 * element of the type, and these are reduced like inputs.
 *
 * Sums, products and quotients of float32 are computed in float64 and rounded: that is the
 * same as float32 arithmetic, because float64 has more than twice its digits.
 */
#include "test/batch/reference.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/half_reference.h"

/*
 * The group of each world rank; NULL: there are none. Of the whole process; where ranks are
 * threads, all of them set it to NULL.
 */
static const char *_Atomic group_of;

const char *reference_set_groups(const char *groups)
{
    return atomic_exchange(&group_of, groups);
}

static _Thread_local bool folds_in_thread;

void reference_set_folds(bool folds)
{
    folds_in_thread = folds;
}

bool reference_folds(void)
{
    return folds_in_thread;
}

/** A value on its way up the tree: real for floats, bits (two's complement) for others. */
struct number {
    double real;
    uint64_t bits;
};

void *must_alloc(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size > 0 ? size : 1);

    if (memory == NULL) {
        (void)fprintf(
                stderr, "no memory for a test: %zu times %zu bytes\n", count, size);
        abort();
    }
    return memory;
}

bool dtype_is_signed_integer(tutti_dtype dtype)
{
    return dtype == TUTTI_INT8 || dtype == TUTTI_INT16 || dtype == TUTTI_INT32 ||
            dtype == TUTTI_INT64;
}

bool dtype_is_real(tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16 ||
            dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT64;
}

bool reference_accepts(tutti_dtype dtype, tutti_reduce_op op)
{
    if (dtype == TUTTI_BOOL) {
        return op == TUTTI_MIN || op == TUTTI_MAX;
    }
    return dtype != TUTTI_FLOAT8_E4M3 && dtype != TUTTI_FLOAT8_E5M2;
}

static double rounded(tutti_dtype dtype, double value)
{
    return dtype == TUTTI_FLOAT64 ? value : (double)(float)value;
}

static struct number load(tutti_dtype dtype, const void *element)
{
    const size_t bytes = tutti_dtype_size(dtype);
    struct number number = { 0 };
    float single;

    memcpy(&number.bits, element, bytes); /* little-endian */
    if (dtype == TUTTI_FLOAT16) {
        number.real = small_float_decode(&float16_format, (uint16_t)number.bits);
    } else if (dtype == TUTTI_BFLOAT16) {
        number.real = small_float_decode(&bfloat16_format, (uint16_t)number.bits);
    } else if (dtype == TUTTI_FLOAT32) {
        memcpy(&single, element, sizeof single);
        number.real = (double)single;
    } else if (dtype == TUTTI_FLOAT64) {
        memcpy(&number.real, element, sizeof number.real);
    } else if (dtype_is_signed_integer(dtype) &&
            (number.bits >> (8 * bytes - 1)) != 0) {
        number.bits |= ~(UINT64_MAX >> (64 - 8 * bytes));
    } else if (dtype == TUTTI_BOOL) {
        number.bits = number.bits != 0;
    }
    return number;
}

static void store(tutti_dtype dtype, struct number number, void *element)
{
    float single;

    if (dtype == TUTTI_FLOAT16) {
        number.bits = small_float_encode(&float16_format, number.real);
    } else if (dtype == TUTTI_BFLOAT16) {
        number.bits = small_float_encode(&bfloat16_format, number.real);
    } else if (dtype == TUTTI_FLOAT32) {
        single = (float)number.real;
        memcpy(&number.bits, &single, sizeof single);
    } else if (dtype == TUTTI_FLOAT64) {
        memcpy(&number.bits, &number.real, sizeof number.real);
    }
    memcpy(element, &number.bits, tutti_dtype_size(dtype));
}

double reference_load_real(tutti_dtype dtype, const void *element)
{
    return load(dtype, element).real;
}

void reference_store_real(tutti_dtype dtype, double value, void *element)
{
    store(dtype, (struct number){ .real = value }, element);
}

int reference_digits(tutti_dtype dtype)
{
    if (dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16) {
        return dtype == TUTTI_FLOAT16 ? 11 : 8;
    }
    return dtype == TUTTI_FLOAT32 ? 24 : 53;
}

static bool is_less(tutti_dtype dtype, struct number a, struct number b)
{
    if (dtype_is_real(dtype)) { /* -0 is below 0 */
        return a.real < b.real ||
                (a.real == b.real && signbit(a.real) != 0 && signbit(b.real) == 0);
    }
    return dtype_is_signed_integer(dtype) ? (int64_t)a.bits < (int64_t)b.bits
                                          : a.bits < b.bits;
}

static struct number combine(
        const struct reduction *r, struct number a, struct number b)
{
    if (r->op == TUTTI_SUM || r->op == TUTTI_AVERAGE) {
        return (struct number){ .real = rounded(r->dtype, a.real + b.real),
            .bits = a.bits + b.bits };
    }
    if (r->op == TUTTI_PRODUCT) {
        return (struct number){ .real = rounded(r->dtype, a.real * b.real),
            .bits = a.bits * b.bits };
    }
    if (isnan(a.real)) {
        return a;
    }
    if (isnan(b.real)) {
        return b;
    }
    return is_less(r->dtype, a, b) == (r->op == TUTTI_MIN) ? a : b;
}

static struct number scale(tutti_dtype dtype, struct number number, double factor)
{
    if (dtype_is_real(dtype)) {
        number.real = rounded(dtype, number.real * rounded(dtype, factor));
    }
    return number;
}

static struct number divide(tutti_dtype dtype, struct number number, int n)
{
    number.real = rounded(dtype, number.real / n);
    if (dtype_is_signed_integer(dtype)) {
        number.bits = (uint64_t)((int64_t)number.bits / n);
    } else {
        number.bits /= (uint64_t)n;
    }
    return number;
}

/* Inputs first to first + n - 1. */
static struct number reduce_range(
        const struct reduction *r, size_t element, int first, int n)
{
    int split = 1;

    if (n == 1) {
        const char *input = r->inputs[first];
        const size_t offset = element * tutti_dtype_size(r->dtype);

        return scale(r->dtype, load(r->dtype, input + offset), r->prescale);
    }
    while (2 * split < n) {
        split *= 2;
    }
    split = r->folds ? n - 1 : split;
    return combine(r, reduce_range(r, element, first, split),
            reduce_range(r, element, first + split, n - split));
}

/* One level, whose result is divided by `divisor`. */
static void reduce_level(
        const struct reduction *r, int divisor, void *output, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct number number = reduce_range(r, i, 0, r->n);

        if (r->op == TUTTI_AVERAGE) {
            number = divide(r->dtype, number, divisor);
        }
        number = scale(r->dtype, number, r->postscale);
        store(r->dtype, number, (char *)output + i * tutti_dtype_size(r->dtype));
    }
}

/* Counts the inputs of each group. @return the largest count; *smallest, *groups */
static int count_groups(const struct reduction *r, int counts[UCHAR_MAX + 1],
        int *smallest, int *groups)
{
    int largest = 0;

    for (int i = 0; i < r->n; i++) {
        counts[(unsigned char)group_of[r->ranks[i]]]++;
    }
    *smallest = r->n;
    for (int g = 0; g <= UCHAR_MAX; g++) {
        largest = counts[g] > largest ? counts[g] : largest;
        if (counts[g] > 0) {
            *smallest = counts[g] < *smallest ? counts[g] : *smallest;
            (*groups)++;
        }
    }
    return largest;
}

static bool has_levels(const struct reduction *r)
{
    int counts[UCHAR_MAX + 1] = { 0 };
    int smallest = 0;
    int groups = 0;
    int largest = 0;

    if (group_of == NULL || r->ranks == NULL || r->folds ||
            (r->op == TUTTI_AVERAGE && !dtype_is_real(r->dtype))) {
        return false;
    }
    largest = count_groups(r, counts, &smallest, &groups);
    return groups > 1 && largest > 1 &&
            (r->collective != TUTTI_REDUCESCATTER || smallest == largest);
}

/* The inputs of the group of input `first`, in order; false unless that is the lowest. */
static bool group_inputs(
        const struct reduction *r, int first, const void **inputs, int *count)
{
    *count = 0;
    for (int i = 0; i < r->n; i++) {
        if (group_of[r->ranks[i]] == group_of[r->ranks[first]]) {
            inputs[(*count)++] = r->inputs[i];
            if (i < first) {
                return false;
            }
        }
    }
    return true;
}

static void reduce_levels(
        const struct reduction *r, int divisor, void *output, size_t count)
{
    const size_t bytes = count * tutti_dtype_size(r->dtype);
    const void **inputs = must_alloc(2 * (size_t)r->n, sizeof *inputs);
    const void **partials = inputs + r->n;
    char *memory = must_alloc((size_t)r->n, bytes);
    struct reduction level = *r;
    int groups = 0;

    level.inputs = inputs;
    level.op = r->op == TUTTI_AVERAGE ? TUTTI_SUM : r->op;
    level.postscale = 1;
    for (int i = 0; i < r->n; i++) {
        if (group_inputs(r, i, inputs, &level.n)) {
            char *partial = memory + (size_t)groups * bytes;

            reduce_level(&level, 1, partial, count);
            partials[groups++] = partial;
        }
    }
    level = *r;
    level.inputs = partials;
    level.n = groups;
    level.prescale = 1;
    reduce_level(&level, divisor, output, count);
    free(memory);
    free(inputs);
}

void reference_reduce(const struct reduction *r, void *output, size_t count)
{
    const bool of_set = r->op == TUTTI_SET_AVERAGE;
    const int divisor = of_set && r->members != 0 ? r->members : r->n;
    struct reduction plain = *r;

    plain.op = of_set ? TUTTI_AVERAGE : r->op;
    if (has_levels(&plain)) {
        reduce_levels(&plain, divisor, output, count);
    } else {
        reduce_level(&plain, divisor, output, count);
    }
}

bool reference_equal(tutti_dtype dtype, const void *a, const void *b, size_t count)
{
    const size_t bytes = tutti_dtype_size(dtype);

    if (memcmp(a, b, count * bytes) == 0) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const char *x = (const char *)a + i * bytes;
        const char *y = (const char *)b + i * bytes;

        if (memcmp(x, y, bytes) != 0 &&
                !(isnan(load(dtype, x).real) && isnan(load(dtype, y).real))) {
            return false;
        }
    }
    return true;
}
