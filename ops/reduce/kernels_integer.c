/*
 * Kernels of the integers and of bool.
 *
 * SUM and PRODUCT wrap: they are computed in the unsigned type of the same width, which
 * gives the bits of a 64-bit result cut to that width. AVERAGE needs the whole sum: its
 * accumulators are 64 bits wide, signed for the division of signed types.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ops/reduce/kernels.h"

KERNEL_BINARY(sum_u8, uint8_t, (uint8_t)(x + y))
KERNEL_BINARY(sum_u16, uint16_t, (uint16_t)(x + y))
KERNEL_BINARY(sum_u32, uint32_t, x + y)
KERNEL_BINARY(sum_u64, uint64_t, x + y)

/* A uint16_t promotes to int, whose product could overflow: multiply unsigned. */
KERNEL_BINARY(product_u8, uint8_t, (uint8_t)(x *y))
KERNEL_BINARY(product_u16, uint16_t, (uint16_t)((uint32_t)x *y))
KERNEL_BINARY(product_u32, uint32_t, x *y)
KERNEL_BINARY(product_u64, uint64_t, x *y)

KERNEL_BINARY(min_u8, uint8_t, x < y ? x : y)
KERNEL_BINARY(min_u16, uint16_t, x < y ? x : y)
KERNEL_BINARY(min_u32, uint32_t, x < y ? x : y)
KERNEL_BINARY(min_u64, uint64_t, x < y ? x : y)
KERNEL_BINARY(min_i8, int8_t, x < y ? x : y)
KERNEL_BINARY(min_i16, int16_t, x < y ? x : y)
KERNEL_BINARY(min_i32, int32_t, x < y ? x : y)
KERNEL_BINARY(min_i64, int64_t, x < y ? x : y)

KERNEL_BINARY(max_u8, uint8_t, x > y ? x : y)
KERNEL_BINARY(max_u16, uint16_t, x > y ? x : y)
KERNEL_BINARY(max_u32, uint32_t, x > y ? x : y)
KERNEL_BINARY(max_u64, uint64_t, x > y ? x : y)
KERNEL_BINARY(max_i8, int8_t, x > y ? x : y)
KERNEL_BINARY(max_i16, int16_t, x > y ? x : y)
KERNEL_BINARY(max_i32, int32_t, x > y ? x : y)
KERNEL_BINARY(max_i64, int64_t, x > y ? x : y)

/* Any byte but 0 counts as true and leaves as 1. */
KERNEL_UNARY(load_bool, uint8_t, uint8_t, x != 0)
KERNEL_BINARY(and_bool, uint8_t, x &y)
KERNEL_BINARY(or_bool, uint8_t, x | y)

KERNEL_UNARY(widen_u8, uint64_t, uint8_t, x)
KERNEL_UNARY(widen_u16, uint64_t, uint16_t, x)
KERNEL_UNARY(widen_u32, uint64_t, uint32_t, x)
KERNEL_UNARY(widen_i8, int64_t, int8_t, (int64_t)x)
KERNEL_UNARY(widen_i16, int64_t, int16_t, x)
KERNEL_UNARY(widen_i32, int64_t, int32_t, x)
KERNEL_UNARY(narrow_8, uint8_t, uint64_t, (uint8_t)x)
KERNEL_UNARY(narrow_16, uint16_t, uint64_t, (uint16_t)x)
KERNEL_UNARY(narrow_32, uint32_t, uint64_t, (uint32_t)x)
KERNEL_UNARY_BY(divide_u64, uint64_t, int, n, x / (uint64_t)n)
KERNEL_UNARY_BY(divide_i64, int64_t, int, n, x / n)

/* By dtype: everything but AVERAGE, each element its own accumulator. */
#define NATIVE(type, sum_fn, min_fn, max_fn, product_fn) \
    { \
        .element_bytes = sizeof(type), .accumulator_bytes = sizeof(type), .combine = { \
            [TUTTI_SUM] = (sum_fn), \
            [TUTTI_MIN] = (min_fn), \
            [TUTTI_MAX] = (max_fn), \
            [TUTTI_PRODUCT] = (product_fn) \
        } \
    }

static const struct reduce_kernels native[TUTTI_BOOL + 1] = {
    [TUTTI_UINT8] = NATIVE(uint8_t, sum_u8, min_u8, max_u8, product_u8),
    [TUTTI_INT8] = NATIVE(int8_t, sum_u8, min_i8, max_i8, product_u8),
    [TUTTI_UINT16] = NATIVE(uint16_t, sum_u16, min_u16, max_u16, product_u16),
    [TUTTI_INT16] = NATIVE(int16_t, sum_u16, min_i16, max_i16, product_u16),
    [TUTTI_UINT32] = NATIVE(uint32_t, sum_u32, min_u32, max_u32, product_u32),
    [TUTTI_INT32] = NATIVE(int32_t, sum_u32, min_i32, max_i32, product_u32),
    [TUTTI_UINT64] = NATIVE(uint64_t, sum_u64, min_u64, max_u64, product_u64),
    [TUTTI_INT64] = NATIVE(int64_t, sum_u64, min_i64, max_i64, product_u64),
    [TUTTI_BOOL] = {
        .element_bytes = 1,
        .accumulator_bytes = 1,
        .load = load_bool,
        .combine = { [TUTTI_MIN] = and_bool, [TUTTI_MAX] = or_bool },
    },
};

#undef NATIVE

/* By dtype: AVERAGE, in 64 bits. */
#define WIDE(type, widen_fn, divide_fn, narrow_fn) \
    { \
        .element_bytes = sizeof(type), .accumulator_bytes = sizeof(uint64_t), \
        .load = (widen_fn), .combine = { [TUTTI_AVERAGE] = sum_u64 }, \
        .divide = (divide_fn), .store = (narrow_fn) \
    }

static const struct reduce_kernels wide[TUTTI_INT64 + 1] = {
    [TUTTI_UINT8] = WIDE(uint8_t, widen_u8, divide_u64, narrow_8),
    [TUTTI_INT8] = WIDE(int8_t, widen_i8, divide_i64, narrow_8),
    [TUTTI_UINT16] = WIDE(uint16_t, widen_u16, divide_u64, narrow_16),
    [TUTTI_INT16] = WIDE(int16_t, widen_i16, divide_i64, narrow_16),
    [TUTTI_UINT32] = WIDE(uint32_t, widen_u32, divide_u64, narrow_32),
    [TUTTI_INT32] = WIDE(int32_t, widen_i32, divide_i64, narrow_32),
    [TUTTI_UINT64] = WIDE(uint64_t, NULL, divide_u64, NULL),
    [TUTTI_INT64] = WIDE(int64_t, NULL, divide_i64, NULL),
};

#undef WIDE

const struct reduce_kernels *kernels_integer(tutti_dtype dtype, tutti_reduce_op op)
{
    if (dtype <= TUTTI_INT64) {
        return op == TUTTI_AVERAGE ? &wide[dtype] : &native[dtype];
    }
    return dtype == TUTTI_BOOL ? &native[dtype] : NULL;
}
