/*
 * The vector kernels, for one width of vectors. The source file of an instruction set is
 * compiled for its processors, and includes this file after it has defined:
 *
 *   VECTOR_BYTES            the width
 *   vector                  the type of a register, whatever is in it
 *   half_widen(from)        float16 in memory to a vector of float32
 *   half_narrow(to, value)  the reverse, rounded to nearest even
 *   word_widen(from)        uint16 in memory to a vector of uint32
 *   word_narrow(to, value)  the reverse, of lanes below 2^16
 *   pick(mask, yes, no)     lanes of yes where the mask is all ones, of no where it is zero
 *
 * A kernel takes each vector of elements from memory to memory at once:
 *
 *   operands   load, widen, prescale
 *   tree       join in the canonical order
 *   result     average, postscale, narrow, store to every output
 *
 * Up to four operands of one output, or two of two, stay in registers. More are read in
 * groups of four, some cache lines of each at a time, and the sums of groups wait in the
 * first-level cache: reading one vector from each of many arrays would be several times
 * slower.
 *
 * Vectors are those of GCC and Clang: operators work on each lane by itself, and a
 * comparison gives lanes of all ones or of zeros. A lane is as wide as an accumulator.
 *
 * reduce() takes what makes a kernel as a constant and is inlined, so that the functions
 * to which struct kind points end up inside its loops.
 */
#ifndef TUTTI_OPS_REDUCE_VECTOR_BODY_H
#define TUTTI_OPS_REDUCE_VECTOR_BODY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "ops/reduce/vector.h"

#define INLINE static inline __attribute__((always_inline))

/* Views of a vector. */
typedef uint8_t lanes_u8 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t lanes_u16 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t lanes_u32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t lanes_u64 __attribute__((vector_size(VECTOR_BYTES)));
typedef int8_t lanes_i8 __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t lanes_i16 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t lanes_i32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t lanes_i64 __attribute__((vector_size(VECTOR_BYTES)));
typedef float lanes_float __attribute__((vector_size(VECTOR_BYTES)));
typedef double lanes_double __attribute__((vector_size(VECTOR_BYTES)));

/* Elements that become a vector when they are widened to 64 bits. */
typedef uint8_t packed_u8 __attribute__((vector_size(VECTOR_BYTES / 8)));
typedef uint16_t packed_u16 __attribute__((vector_size(VECTOR_BYTES / 4)));
typedef uint32_t packed_u32 __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef int8_t packed_i8 __attribute__((vector_size(VECTOR_BYTES / 8)));
typedef int16_t packed_i16 __attribute__((vector_size(VECTOR_BYTES / 4)));
typedef int32_t packed_i32 __attribute__((vector_size(VECTOR_BYTES / 2)));

/** What makes a kernel. */
struct kind {
    size_t element_bytes, lane_bytes;
    bool common; /* worth the code of loops for 3 and for 4 operands */
    vector (*load)(const char *elements); /* widened to lanes */
    void (*store)(char *elements, vector value); /* narrowed and rounded */
    vector (*join)(vector a, vector b); /* the reduction of two */
    vector (*scale)(vector value, double factor); /* NULL: integers */
    vector (*divide)(vector value, int n); /* for AVERAGE */
};

/* ------------------------------------------------------------------- load and store */

INLINE vector load_lanes(const char *elements)
{
    vector value;

    memcpy(&value, elements, sizeof value);
    return value;
}

INLINE void store_lanes(char *elements, vector value)
{
    memcpy(elements, &value, sizeof value);
}

/* Any byte but 0 is true. */
INLINE vector load_bool(const char *elements)
{
    return (vector)((lanes_u8)((lanes_u8)load_lanes(elements) != 0) & 1);
}

INLINE vector load_half(const char *elements)
{
    return half_widen(elements);
}

/* To nearest even; a NaN stays one, made quiet. */
INLINE void store_half(char *elements, vector value)
{
    half_narrow(elements, value);
}

/* A NaN may stay signalling: store_bfloat makes it quiet. */
INLINE vector load_bfloat(const char *elements)
{
    return (vector)((lanes_u32)word_widen(elements) << 16);
}

/* As store_half. */
INLINE void store_bfloat(char *elements, vector value)
{
    const lanes_u32 bits = (lanes_u32)value;
    const lanes_u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    const lanes_u32 quiet = bits | 1 << 22;
    const vector is_nan = (vector)((lanes_i32)(bits & 0x7fffffff) > 255 << 23);

    word_narrow(elements,
            (vector)((lanes_u32)pick(is_nan, (vector)quiet, (vector)rounded) >> 16));
}

/* For AVERAGE of integers, whose lanes have 64 bits. */
#define WIDE(load, store, packed_type, lanes_type) \
    INLINE vector load(const char *elements) \
    { \
        packed_type packed; \
\
        memcpy(&packed, elements, sizeof packed); \
        return (vector) __builtin_convertvector(packed, lanes_type); \
    } \
\
    INLINE void store(char *elements, vector value) \
    { \
        const packed_type packed = \
                __builtin_convertvector((lanes_type)value, packed_type); \
\
        memcpy(elements, &packed, sizeof packed); \
    }

WIDE(load_wide_u8, store_wide_u8, packed_u8, lanes_u64)
WIDE(load_wide_u16, store_wide_u16, packed_u16, lanes_u64)
WIDE(load_wide_u32, store_wide_u32, packed_u32, lanes_u64)
WIDE(load_wide_i8, store_wide_i8, packed_i8, lanes_i64)
WIDE(load_wide_i16, store_wide_i16, packed_i16, lanes_i64)
WIDE(load_wide_i32, store_wide_i32, packed_i32, lanes_i64)

#undef WIDE

/* ----------------------------------------------------------------------- arithmetic */

INLINE bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Defines a function of vectors; `expression` is of x and y, seen as `type`. */
#define JOIN(name, type, expression) \
    INLINE vector name(vector a, vector b) \
    { \
        const type x = (type)a; \
        const type y = (type)b; \
\
        return (vector)(expression); \
    }

/* A NaN wins; equal operands differ in the sign of a zero or not at all. */
#define JOIN_ORDERED(name, type, before, both) \
    INLINE vector name(vector a, vector b) \
    { \
        const type x = (type)a; \
        const type y = (type)b; \
        const vector first = pick((vector)(x before y), a, b); \
        const vector ordered = pick((vector)(x == y), a both b, first); \
\
        return pick((vector)(x != x), a, ordered); \
    }

#define SCALE(name, type, lane) \
    INLINE vector name(vector value, double factor) \
    { \
        return (vector)((type)value * (lane)factor); \
    }

/* The reciprocal of a power of two is exact: see kernels_float.c. */
#define QUOTIENT(name, type, lane) \
    INLINE vector name(vector value, int n) \
    { \
        const type x = (type)value; \
\
        return (vector)(is_power_of_two(n) ? x * ((lane)1 / (lane)n) : x / (lane)n); \
    }

JOIN(add_float, lanes_float, x + y)
JOIN(multiply_float, lanes_float, x *y)
JOIN_ORDERED(lesser_float, lanes_float, <, |)
JOIN_ORDERED(greater_float, lanes_float, >, &)
SCALE(scale_float, lanes_float, float)
QUOTIENT(divide_float, lanes_float, float)

JOIN(add_double, lanes_double, x + y)
JOIN(multiply_double, lanes_double, x *y)
JOIN_ORDERED(lesser_double, lanes_double, <, |)
JOIN_ORDERED(greater_double, lanes_double, >, &)
SCALE(scale_double, lanes_double, double)
QUOTIENT(divide_double, lanes_double, double)

JOIN(add_u8, lanes_u8, x + y)
JOIN(add_u16, lanes_u16, x + y)
JOIN(add_u32, lanes_u32, x + y)
JOIN(add_u64, lanes_u64, x + y)
JOIN(multiply_u8, lanes_u8, x *y)
JOIN(multiply_u16, lanes_u16, x *y)
JOIN(multiply_u32, lanes_u32, x *y)
JOIN(multiply_u64, lanes_u64, x *y)
JOIN(lesser_u8, lanes_u8, pick((vector)(x < y), a, b))
JOIN(lesser_u16, lanes_u16, pick((vector)(x < y), a, b))
JOIN(lesser_u32, lanes_u32, pick((vector)(x < y), a, b))
JOIN(lesser_u64, lanes_u64, pick((vector)(x < y), a, b))
JOIN(lesser_i8, lanes_i8, pick((vector)(x < y), a, b))
JOIN(lesser_i16, lanes_i16, pick((vector)(x < y), a, b))
JOIN(lesser_i32, lanes_i32, pick((vector)(x < y), a, b))
JOIN(lesser_i64, lanes_i64, pick((vector)(x < y), a, b))
JOIN(greater_u8, lanes_u8, pick((vector)(x > y), a, b))
JOIN(greater_u16, lanes_u16, pick((vector)(x > y), a, b))
JOIN(greater_u32, lanes_u32, pick((vector)(x > y), a, b))
JOIN(greater_u64, lanes_u64, pick((vector)(x > y), a, b))
JOIN(greater_i8, lanes_i8, pick((vector)(x > y), a, b))
JOIN(greater_i16, lanes_i16, pick((vector)(x > y), a, b))
JOIN(greater_i32, lanes_i32, pick((vector)(x > y), a, b))
JOIN(greater_i64, lanes_i64, pick((vector)(x > y), a, b))
JOIN(both, lanes_u8, x &y)
JOIN(either, lanes_u8, x | y)

/* Vectors of integers cannot be divided, but shifted: n is a power of two. */
INLINE vector divide_u64(vector value, int n)
{
    return (vector)((lanes_u64)value >> __builtin_ctz((unsigned)n));
}

/* A shift rounds down: toward zero when n - 1 is added to what is negative. */
INLINE vector divide_i64(vector value, int n)
{
    const lanes_i64 x = (lanes_i64)value;
    const lanes_i64 up = (x < 0) & (int64_t)(n - 1);

    return (vector)((lanes_i64)(x + up) >> __builtin_ctz((unsigned)n));
}

#undef JOIN
#undef JOIN_ORDERED
#undef SCALE
#undef QUOTIENT

/* ------------------------------------------------------------------------- the tree */

/* Operands whose subtree is kept in registers; a power of two. */
#define GROUP 4
/* Sums on their way up the tree: 1 + log2(REDUCE_OPERANDS_MAX / GROUP). */
#define LEVELS_MAX 19
/* What is read of one group before the next: of each operand some cache lines. */
#define BLOCK_VECTORS (1024 / VECTOR_BYTES)

/** A kernel and its call. */
struct pass {
    const struct kind *kind;
    const struct vector_pass *call;
    bool scaled; /* whether there is anything to multiply or divide by */
};

/** Bytes of elements that make a vector. */
INLINE size_t step_bytes(const struct kind *kind)
{
    return VECTOR_BYTES / kind->lane_bytes * kind->element_bytes;
}

INLINE vector operand(struct pass pass, const void *input, size_t at)
{
    const vector value = pass.kind->load((const char *)input + at);

    return pass.scaled && pass.kind->scale != NULL
            ? pass.kind->scale(value, pass.call->prescale)
            : value;
}

/** The operands inputs[0] to inputs[n - 1], n <= GROUP. */
INLINE vector group(struct pass pass, const void *const *inputs, int n, size_t at)
{
    vector left = operand(pass, inputs[0], at);
    vector right;

    if (n == 1) {
        return left;
    }
    left = pass.kind->join(left, operand(pass, inputs[1], at));
    if (n == 2) {
        return left;
    }
    right = operand(pass, inputs[2], at);
    if (n == GROUP) {
        right = pass.kind->join(right, operand(pass, inputs[3], at));
    }
    return pass.kind->join(left, right);
}

/** What becomes of a sum before it is stored. */
INLINE vector finish(struct pass pass, vector value)
{
    const struct kind *const kind = pass.kind;

    if (pass.scaled && kind->divide != NULL && pass.call->divisor > 1) {
        value = kind->divide(value, pass.call->divisor);
    }
    if (pass.scaled && kind->scale != NULL) {
        value = kind->scale(value, pass.call->postscale);
    }
    return value;
}

/** A few operands, in registers: n and m are constants, at most GROUP and 2. */
INLINE void reduce_few(struct pass pass, int n, int m, size_t bytes)
{
    const size_t step = step_bytes(pass.kind);
    char *const output = pass.call->outputs[0];
    char *const second = pass.call->outputs[m - 1];
    const void *inputs[GROUP];

    for (int k = 0; k < n; k++) {
        inputs[k] = pass.call->inputs[k];
    }
    for (size_t at = 0; at < bytes; at += step) {
        const vector result = finish(pass, group(pass, inputs, n, at));

        pass.kind->store(output + at, result);
        if (m == 2) {
            pass.kind->store(second + at, result);
        }
    }
}

/** Puts the sum of n operands on the stack. */
INLINE void push(
        struct pass pass, vector *top, int first, int n, size_t at, size_t some)
{
    const void *const *const inputs = pass.call->inputs + first;
    const size_t step = step_bytes(pass.kind);

    for (size_t i = 0; i < some; i++) {
        top[i] = group(pass, inputs, n, at + i * step);
    }
}

/** Joins the two sums on top of the stack. */
INLINE void join_top(
        struct pass pass, vector (*stack)[BLOCK_VECTORS], int depth, size_t some)
{
    for (size_t i = 0; i < some; i++) {
        stack[depth - 2][i] = pass.kind->join(stack[depth - 2][i], stack[depth - 1][i]);
    }
}

/** Stores results, which are not rounded yet. */
INLINE void put(struct pass pass, char *output, const vector *results, size_t some)
{
    for (size_t i = 0; i < some; i++) {
        pass.kind->store(output + i * step_bytes(pass.kind), results[i]);
    }
}

/** Any number of operands, `some` vectors of each from `at` on. As in scalar.c. */
INLINE void reduce_block(struct pass pass, size_t at, size_t some)
{
    const int n = pass.call->n;
    vector stack[LEVELS_MAX][BLOCK_VECTORS];
    int depth = 0;

    for (int first = 0; first < n; first += GROUP) {
        if (n - first >= GROUP) {
            push(pass, stack[depth], first, GROUP, at, some);
        } else {
            push(pass, stack[depth], first, n - first, at, some);
        }
        depth++;
        /* As many sums as the number of groups has bits: the carries of counting. */
        for (; depth > __builtin_popcount((unsigned)first / GROUP + 1); depth--) {
            join_top(pass, stack, depth, some);
        }
    }
    for (; depth > 1; depth--) {
        join_top(pass, stack, depth, some);
    }
    for (size_t i = 0; i < some; i++) {
        stack[0][i] = finish(pass, stack[0][i]);
    }
    for (int j = 0; j < pass.call->m; j++) {
        put(pass, (char *)pass.call->outputs[j] + at, stack[0], some);
    }
}

INLINE void reduce_many(struct pass pass, size_t bytes)
{
    const size_t step = step_bytes(pass.kind);
    const size_t block = BLOCK_VECTORS * step;

    for (size_t at = 0; at < bytes; at += block) {
        reduce_block(pass, at, size_min(block, bytes - at) / step);
    }
}

INLINE void reduce_all(struct pass pass, size_t bytes)
{
    const int n = pass.call->n;
    const bool one = pass.call->m == 1;

    if (one && n == 2) {
        reduce_few(pass, 2, 1, bytes);
    } else if (n == 2 && pass.call->m == 2 && pass.kind->common) {
        reduce_few(pass, 2, 2, bytes);
    } else if (one && n == 3 && pass.kind->common) {
        reduce_few(pass, 3, 1, bytes);
    } else if (one && n == 4 && pass.kind->common) {
        reduce_few(pass, 4, 1, bytes);
    } else {
        reduce_many(pass, bytes);
    }
}

INLINE size_t reduce(const struct kind *kind, const struct vector_pass *call)
{
    const size_t count = call->count & ~(VECTOR_BYTES / kind->lane_bytes - 1);
    const size_t bytes = count * kind->element_bytes;
    const struct vector_pass own = *call; /* nobody else can write to it */
    const bool is_plain =
            call->prescale == 1 && call->postscale == 1 && call->divisor == 1;

    if (kind->scale == NULL && !is_power_of_two(call->divisor)) {
        return 0; /* a division of integers: no better than the portable kernels */
    }
    if (kind->divide == NULL || (kind->scale != NULL && is_plain)) {
        reduce_all((struct pass){ .kind = kind, .call = &own }, bytes);
    } else {
        reduce_all((struct pass){ .kind = kind, .call = &own, .scaled = true }, bytes);
    }
    return count;
}

/* -------------------------------------------------------------------------- kernels */

/* Defines the kernel `name`. The rest are initialisers of struct kind. */
#define KERNEL(name, lane, ...) \
    static size_t name(const struct vector_pass *pass) \
    { \
        static const struct kind kind = { .lane_bytes = (lane), __VA_ARGS__ }; \
\
        return reduce(&kind, pass); \
    }
#define NATIVE(name, bytes, join_lanes) \
    KERNEL(name, bytes, .element_bytes = (bytes), .load = load_lanes, \
            .store = store_lanes, .join = (join_lanes))
#define AVERAGE(name, bytes, load_wide, store_wide, add, quotient) \
    KERNEL(name, 8, .element_bytes = (bytes), .load = (load_wide), \
            .store = (store_wide), .join = (add), .divide = (quotient))
#define BOOL_KERNEL(name, join_lanes) \
    KERNEL(name, 1, .element_bytes = 1, .load = load_bool, .store = store_lanes, \
            .join = (join_lanes))
#define FLOAT(name, bytes, load_float, store_float, join_lanes, ...) \
    KERNEL(name, sizeof(float), .element_bytes = (bytes), .load = (load_float), \
            .store = (store_float), .join = (join_lanes), .scale = scale_float, \
            .divide = divide_float, __VA_ARGS__)
#define DOUBLE(name, join_lanes, ...) \
    KERNEL(name, sizeof(double), .element_bytes = sizeof(double), .load = load_lanes, \
            .store = store_lanes, .join = (join_lanes), .scale = scale_double, \
            .divide = divide_double, __VA_ARGS__)

NATIVE(sum_u8, 1, add_u8)
NATIVE(sum_u16, 2, add_u16)
NATIVE(sum_u32, 4, add_u32)
NATIVE(sum_u64, 8, add_u64)
NATIVE(product_u8, 1, multiply_u8)
NATIVE(product_u16, 2, multiply_u16)
NATIVE(product_u32, 4, multiply_u32)
NATIVE(product_u64, 8, multiply_u64)
NATIVE(min_u8, 1, lesser_u8)
NATIVE(min_u16, 2, lesser_u16)
NATIVE(min_u32, 4, lesser_u32)
NATIVE(min_u64, 8, lesser_u64)
NATIVE(min_i8, 1, lesser_i8)
NATIVE(min_i16, 2, lesser_i16)
NATIVE(min_i32, 4, lesser_i32)
NATIVE(min_i64, 8, lesser_i64)
NATIVE(max_u8, 1, greater_u8)
NATIVE(max_u16, 2, greater_u16)
NATIVE(max_u32, 4, greater_u32)
NATIVE(max_u64, 8, greater_u64)
NATIVE(max_i8, 1, greater_i8)
NATIVE(max_i16, 2, greater_i16)
NATIVE(max_i32, 4, greater_i32)
NATIVE(max_i64, 8, greater_i64)

AVERAGE(average_u8, 1, load_wide_u8, store_wide_u8, add_u64, divide_u64)
AVERAGE(average_u16, 2, load_wide_u16, store_wide_u16, add_u64, divide_u64)
AVERAGE(average_u32, 4, load_wide_u32, store_wide_u32, add_u64, divide_u64)
AVERAGE(average_u64, 8, load_lanes, store_lanes, add_u64, divide_u64)
AVERAGE(average_i8, 1, load_wide_i8, store_wide_i8, add_u64, divide_i64)
AVERAGE(average_i16, 2, load_wide_i16, store_wide_i16, add_u64, divide_i64)
AVERAGE(average_i32, 4, load_wide_i32, store_wide_i32, add_u64, divide_i64)
AVERAGE(average_i64, 8, load_lanes, store_lanes, add_u64, divide_i64)

BOOL_KERNEL(min_bool, both)
BOOL_KERNEL(max_bool, either)

FLOAT(sum_half, 2, load_half, store_half, add_float, .common = true)
FLOAT(min_half, 2, load_half, store_half, lesser_float, .common = false)
FLOAT(max_half, 2, load_half, store_half, greater_float, .common = false)
FLOAT(product_half, 2, load_half, store_half, multiply_float, .common = false)
FLOAT(sum_bfloat, 2, load_bfloat, store_bfloat, add_float, .common = true)
FLOAT(min_bfloat, 2, load_bfloat, store_bfloat, lesser_float, .common = false)
FLOAT(max_bfloat, 2, load_bfloat, store_bfloat, greater_float, .common = false)
FLOAT(product_bfloat, 2, load_bfloat, store_bfloat, multiply_float, .common = false)
FLOAT(sum_float, 4, load_lanes, store_lanes, add_float, .common = true)
FLOAT(min_float, 4, load_lanes, store_lanes, lesser_float, .common = false)
FLOAT(max_float, 4, load_lanes, store_lanes, greater_float, .common = false)
FLOAT(product_float, 4, load_lanes, store_lanes, multiply_float, .common = false)

DOUBLE(sum_double, add_double, .common = true)
DOUBLE(min_double, lesser_double, .common = false)
DOUBLE(max_double, greater_double, .common = false)
DOUBLE(product_double, multiply_double, .common = false)

/* Conversions, between `from_bytes` and `to_bytes` for each element. */
#define CONVERT(name, to_bytes, from_bytes, load_vector, store_vector) \
    static size_t name(void *to, const void *from, size_t count) \
    { \
        const size_t lanes = VECTOR_BYTES / sizeof(float); \
        const size_t whole = count - count % lanes; \
\
        for (size_t i = 0; i < whole; i += lanes) { \
            store_vector((char *)to + i * (to_bytes), \
                    load_vector((const char *)from + i * (from_bytes))); \
        } \
        return whole; \
    }

CONVERT(narrow_half, 2, 4, load_lanes, store_half)
CONVERT(narrow_bfloat, 2, 4, load_lanes, store_bfloat)
CONVERT(widen_half, 4, 2, load_half, store_lanes)
CONVERT(widen_bfloat, 4, 2, load_bfloat, store_lanes)

/* A row of struct vector_set. */
#define KERNELS(sum, average, min, max, product) \
    { \
        [TUTTI_SUM] = (sum), [TUTTI_AVERAGE] = (average), [TUTTI_MIN] = (min), \
        [TUTTI_MAX] = (max), [TUTTI_PRODUCT] = (product) \
    }

/* What the file of an instruction set initialises its struct vector_set with. */
#define VECTOR_KERNELS \
    { \
        [TUTTI_UINT8] = KERNELS(sum_u8, average_u8, min_u8, max_u8, product_u8), \
        [TUTTI_INT8] = KERNELS(sum_u8, average_i8, min_i8, max_i8, product_u8), \
        [TUTTI_UINT16] = KERNELS(sum_u16, average_u16, min_u16, max_u16, product_u16), \
        [TUTTI_INT16] = KERNELS(sum_u16, average_i16, min_i16, max_i16, product_u16), \
        [TUTTI_UINT32] = KERNELS(sum_u32, average_u32, min_u32, max_u32, product_u32), \
        [TUTTI_INT32] = KERNELS(sum_u32, average_i32, min_i32, max_i32, product_u32), \
        [TUTTI_UINT64] = KERNELS(sum_u64, average_u64, min_u64, max_u64, product_u64), \
        [TUTTI_INT64] = KERNELS(sum_u64, average_i64, min_i64, max_i64, product_u64), \
        [TUTTI_FLOAT16] = \
                KERNELS(sum_half, sum_half, min_half, max_half, product_half), \
        [TUTTI_BFLOAT16] = KERNELS( \
                sum_bfloat, sum_bfloat, min_bfloat, max_bfloat, product_bfloat), \
        [TUTTI_FLOAT32] = \
                KERNELS(sum_float, sum_float, min_float, max_float, product_float), \
        [TUTTI_FLOAT64] = KERNELS( \
                sum_double, sum_double, min_double, max_double, product_double), \
        [TUTTI_BOOL] = { \
            [TUTTI_MIN] = min_bool, \
            [TUTTI_MAX] = max_bool \
        } \
    }
#define VECTOR_NARROW \
    { \
        [TUTTI_FLOAT16] = narrow_half, [TUTTI_BFLOAT16] = narrow_bfloat \
    }
#define VECTOR_WIDEN \
    { \
        [TUTTI_FLOAT16] = widen_half, [TUTTI_BFLOAT16] = widen_bfloat \
    }

#endif
