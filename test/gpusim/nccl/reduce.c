/*
 * The arithmetic of the simulated NCCL: one function for each type and operation, made by
 * macros, and tables of them. Slow and obvious.
 */
#include "test/gpusim/nccl/reduce.h"

#include <math.h>
#include <string.h>

enum {
    TYPES = 10,
    OPS = 4
};

static const struct {
    size_t bytes;
    const char *name;
} types[TYPES] = {
    [NCCL_INT8] = { 1, "int8" },
    [NCCL_UINT8] = { 1, "uint8" },
    [NCCL_INT32] = { 4, "int32" },
    [NCCL_UINT32] = { 4, "uint32" },
    [NCCL_INT64] = { 8, "int64" },
    [NCCL_UINT64] = { 8, "uint64" },
    [NCCL_FLOAT16] = { 2, "float16" },
    [NCCL_FLOAT32] = { 4, "float32" },
    [NCCL_FLOAT64] = { 8, "float64" },
    [NCCL_BFLOAT16] = { 2, "bfloat16" },
};

static bool is_type(nccl_dtype type)
{
    return type >= 0 && type < TYPES;
}

size_t reduce_type_bytes(nccl_dtype type)
{
    return is_type(type) ? types[type].bytes : 0;
}

const char *reduce_type_name(nccl_dtype type)
{
    return is_type(type) ? types[type].name : "no type";
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

float reduce_half_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000U) << 16;
    uint32_t exponent = bits >> 10 & 0x1fU;
    uint32_t fraction = bits & 0x3ffU;

    if (exponent == 0x1f) {
        return float_of(sign | 0x7f800000U | fraction << 13);
    }
    if (exponent != 0) {
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    }
    return float_of(sign | bits_of((float)fraction * 0x1p-24F));
}

uint16_t reduce_half_from_float(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000U;
    uint32_t size = bits & 0x7fffffffU;

    if (size > 0x7f800000U) {
        return (uint16_t)(sign | 0x7e00U);
    }
    if (size >= 0x477ff000U) { /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00U);
    }
    if (size < 0x38800000U) { /* below 2^-14: the addition rounds at 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(size) + 0.5F) - bits_of(0.5F)));
    }
    size += 0xfffU + (size >> 13 & 1U); /* to nearest, ties to even */
    return (uint16_t)(sign | (size - 0x38000000U) >> 13);
}

float reduce_bfloat_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t reduce_bfloat_from_float(float value)
{
    uint32_t bits = bits_of(value);

    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return (uint16_t)(bits >> 16 | 0x40U);
    }
    return (uint16_t)((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

/* Sums and products of integers wrap, as on the GPU. */
#define SUM_OF(a, b) ((a) + (b))
#define PRODUCT_OF(a, b) ((a) * (b))
#define LARGER_OF(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER_OF(a, b) ((a) < (b) ? (a) : (b))

/* NaN wins, as in NCCL's maxima of floats since 2.24. */
#define LARGER_FLOAT(a, b) (isnan(a) || (a) > (b) ? (a) : (b))
#define SMALLER_FLOAT(a, b) (isnan(a) || (a) < (b) ? (a) : (b))

/* FOLD(name, stored type, type of the arithmetic, load, store, expression) */
#define FOLD(name, stored, wide, load, store, expression) \
    static void name(void *into, const void *from, size_t count) \
    { \
        stored *to = into; \
        const stored *values = from; \
        size_t i; \
\
        for (i = 0; i < count; i++) { \
            wide a = load(to[i]); \
            wide b = load(values[i]); \
\
            to[i] = store(expression(a, b)); \
        } \
    }

/* `wide` is unsigned, so that overflow is defined; comparisons are of the type itself. */
#define INTEGER(short_name, stored, wide) \
    FOLD(sum_##short_name, stored, wide, (wide), (stored), SUM_OF) \
    FOLD(prod_##short_name, stored, wide, (wide), (stored), PRODUCT_OF) \
    FOLD(max_##short_name, stored, stored, , , LARGER_OF) \
    FOLD(min_##short_name, stored, stored, , , SMALLER_OF)
#define FLOATING(short_name, stored, wide, load, store) \
    FOLD(sum_##short_name, stored, wide, load, store, SUM_OF) \
    FOLD(prod_##short_name, stored, wide, load, store, PRODUCT_OF) \
    FOLD(max_##short_name, stored, wide, load, store, LARGER_FLOAT) \
    FOLD(min_##short_name, stored, wide, load, store, SMALLER_FLOAT)

INTEGER(int8, int8_t, uint32_t)
INTEGER(uint8, uint8_t, uint32_t)
INTEGER(int32, int32_t, uint32_t)
INTEGER(uint32, uint32_t, uint32_t)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint64, uint64_t, uint64_t)
FLOATING(half, uint16_t, float, reduce_half_to_float, reduce_half_from_float)
FLOATING(bfloat, uint16_t, float, reduce_bfloat_to_float, reduce_bfloat_from_float)
FLOATING(float, float, float, , )
FLOATING(double, double, double, , )

#define FOLDS(name) \
    { \
        [NCCL_SUM] = sum_##name, [NCCL_PROD] = prod_##name, [NCCL_MAX] = max_##name, \
        [NCCL_MIN] = min_##name \
    }

/* clang-format off */
static void (*const folds[TYPES][OPS])(void *into, const void *from, size_t count) = {
    [NCCL_INT8] = FOLDS(int8), [NCCL_UINT8] = FOLDS(uint8),
    [NCCL_INT32] = FOLDS(int32), [NCCL_UINT32] = FOLDS(uint32),
    [NCCL_INT64] = FOLDS(int64), [NCCL_UINT64] = FOLDS(uint64),
    [NCCL_FLOAT16] = FOLDS(half), [NCCL_BFLOAT16] = FOLDS(bfloat),
    [NCCL_FLOAT32] = FOLDS(float), [NCCL_FLOAT64] = FOLDS(double),
};
/* clang-format on */

void reduce_fold(
        nccl_dtype type, nccl_op op, void *into, const void *from, size_t count)
{
    folds[type][op](into, from, count);
}
