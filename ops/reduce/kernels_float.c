/*
 * Kernels of float16, bfloat16, float32 and float64. The 16-bit types accumulate in
 * float32 and are rounded when they are stored; the others are their own accumulators.
 */
#include <stdint.h>
#include <string.h>

#include "ops/reduce/half.h"
#include "ops/reduce/kernels.h"

static inline uint64_t double_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double double_from_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/*
 * MIN and MAX: a NaN wins; equal operands can only differ in the sign of a zero, so
 * joining their bits orders -0 below +0.
 */
static inline float float_min(float x, float y)
{
    float less = x < y ? x : y;
    float ordered = x == y ? float_from_bits(float_bits(x) | float_bits(y)) : less;

    return x != x ? x : ordered;
}

static inline float float_max(float x, float y)
{
    float more = x > y ? x : y;
    float ordered = x == y ? float_from_bits(float_bits(x) & float_bits(y)) : more;

    return x != x ? x : ordered;
}

static inline double double_min(double x, double y)
{
    double less = x < y ? x : y;
    double ordered = x == y ? double_from_bits(double_bits(x) | double_bits(y)) : less;

    return x != x ? x : ordered;
}

static inline double double_max(double x, double y)
{
    double more = x > y ? x : y;
    double ordered = x == y ? double_from_bits(double_bits(x) & double_bits(y)) : more;

    return x != x ? x : ordered;
}

KERNEL_UNARY(load_half, float, uint16_t, half_to_float(x))
KERNEL_UNARY(load_bfloat, float, uint16_t, bfloat_to_float(x))
KERNEL_UNARY(store_half, uint16_t, float, half_from_float(x))
KERNEL_UNARY(store_bfloat, uint16_t, float, bfloat_from_float(x))

KERNEL_BINARY(sum_float, float, x + y)
KERNEL_BINARY(product_float, float, x *y)
KERNEL_BINARY(min_float, float, float_min(x, y))
KERNEL_BINARY(max_float, float, float_max(x, y))
KERNEL_BINARY(sum_double, double, x + y)
KERNEL_BINARY(product_double, double, x *y)
KERNEL_BINARY(min_double, double, double_min(x, y))
KERNEL_BINARY(max_double, double, double_max(x, y))

KERNEL_UNARY_BY(multiply_float, float, float, factor, x *factor)
KERNEL_UNARY_BY(quotient_float, float, float, divisor, x / divisor)
KERNEL_UNARY_BY(scale_double, double, double, factor, x *factor)
KERNEL_UNARY_BY(quotient_double, double, double, divisor, x / divisor)

static void scale_float(void *out, const void *in, double factor, size_t count)
{
    multiply_float(out, in, (float)factor, count);
}

/*
 * The reciprocal of a power of two is exact, so multiplying by it rounds the same real
 * number as dividing does, and is several times faster.
 */
static inline bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

static void divide_float(void *out, const void *in, int n, size_t count)
{
    if (is_power_of_two(n)) {
        multiply_float(out, in, 1.0F / (float)n, count);
    } else {
        quotient_float(out, in, (float)n, count);
    }
}

static void divide_double(void *out, const void *in, int n, size_t count)
{
    if (is_power_of_two(n)) {
        scale_double(out, in, 1.0 / n, count);
    } else {
        quotient_double(out, in, n, count);
    }
}

/* clang-format off */
#define COMBINE_FLOAT                                                                  \
    { [TUTTI_SUM] = sum_float, [TUTTI_AVERAGE] = sum_float, [TUTTI_MIN] = min_float,   \
      [TUTTI_MAX] = max_float, [TUTTI_PRODUCT] = product_float }
#define COMBINE_DOUBLE                                                                 \
    { [TUTTI_SUM] = sum_double, [TUTTI_AVERAGE] = sum_double, [TUTTI_MIN] = min_double,\
      [TUTTI_MAX] = max_double, [TUTTI_PRODUCT] = product_double }
/* clang-format on */

static const struct reduce_kernels half_kernels = {
    .element_bytes = 2,
    .accumulator_bytes = sizeof(float),
    .load = load_half,
    .combine = COMBINE_FLOAT,
    .scale = scale_float,
    .divide = divide_float,
    .store = store_half,
};

static const struct reduce_kernels bfloat_kernels = {
    .element_bytes = 2,
    .accumulator_bytes = sizeof(float),
    .load = load_bfloat,
    .combine = COMBINE_FLOAT,
    .scale = scale_float,
    .divide = divide_float,
    .store = store_bfloat,
};

static const struct reduce_kernels float_kernels = {
    .element_bytes = sizeof(float),
    .accumulator_bytes = sizeof(float),
    .combine = COMBINE_FLOAT,
    .scale = scale_float,
    .divide = divide_float,
};

static const struct reduce_kernels double_kernels = {
    .element_bytes = sizeof(double),
    .accumulator_bytes = sizeof(double),
    .combine = COMBINE_DOUBLE,
    .scale = scale_double,
    .divide = divide_double,
};

#undef COMBINE_FLOAT
#undef COMBINE_DOUBLE

const struct reduce_kernels *kernels_float(tutti_dtype dtype)
{
    if (dtype == TUTTI_FLOAT16) {
        return &half_kernels;
    }
    if (dtype == TUTTI_BFLOAT16) {
        return &bfloat_kernels;
    }
    if (dtype == TUTTI_FLOAT32) {
        return &float_kernels;
    }
    return dtype == TUTTI_FLOAT64 ? &double_kernels : NULL;
}
