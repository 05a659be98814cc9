/*
 * Conversions between float32 and the two 16-bit float types, without branches, so that
 * loops over them vectorise on any processor.
 *
 * They give the bits of the x86 instructions VCVTPH2PS and VCVTPS2PH: widening is exact,
 * narrowing rounds to nearest even, overflow gives infinity, and a NaN stays a NaN with
 * its sign and upper payload, made quiet. They do not depend on the processor's
 * flush-to-zero modes, because no step has a subnormal float32 operand whose value
 * matters.
 */
#ifndef TUTTI_OPS_REDUCE_HALF_H
#define TUTTI_OPS_REDUCE_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/** Compares as signed numbers, for which SSE2 has an instruction. */
static inline bool is_nan_bits(uint32_t bits)
{
    return (int32_t)(bits & 0x7fffffff) > 255 << 23;
}

/** float16 (sign, 5 exponent bits of bias 15, 10 fraction bits) to float32; exact. */
static inline float half_to_float(uint16_t half)
{
    const int32_t rebias = (127 - 15) << 23;
    const int32_t smallest_normal = (127 - 14) << 23;
    const int32_t infinity = 31 << 23;
    const int32_t quiet_bit = 1 << 22;
    int32_t magnitude = (half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    /* Subnormal: put the fraction behind a one and subtract that one; exact. */
    float fraction = float_from_bits((uint32_t)(magnitude + smallest_normal));
    float one = float_from_bits((uint32_t)smallest_normal);
    int32_t tiny = (int32_t)float_bits(fraction - one);
    int32_t bits = magnitude < 1 << 23 ? tiny : magnitude + rebias;

    /* Infinity and NaN: the exponent is all ones in both types. */
    bits += magnitude >= infinity ? rebias : 0;
    bits |= magnitude > infinity ? quiet_bit : 0;
    return float_from_bits((uint32_t)bits | sign);
}

/** float32 to float16, to nearest even. */
static inline uint16_t half_from_float(float value)
{
    const int32_t rebias = (127 - 15) << 23;
    const int32_t smallest_normal = (127 - 14) << 23;
    const int32_t overflow = (127 + 16) << 23;
    /* Adding 0.5 leaves a float16 subnormal's fraction in the lowest bits, rounded. */
    const int32_t one_half = 126 << 23;
    int32_t magnitude = (int32_t)(float_bits(value) & 0x7fffffff);
    uint32_t sign = float_bits(value) >> 16 & 0x8000;
    float shifted = float_from_bits((uint32_t)magnitude) + 0.5F;
    int32_t tiny = (int32_t)float_bits(shifted) - one_half;
    int32_t odd = magnitude >> 13 & 1;
    int32_t normal = (magnitude - rebias + 0xfff + odd) >> 13;
    int32_t finite = magnitude < smallest_normal ? tiny : normal;
    int32_t payload =
            is_nan_bits(float_bits(value)) ? 0x200 | (magnitude >> 13 & 0x3ff) : 0;
    int32_t bits = magnitude >= overflow ? 0x7c00 | payload : finite;

    return (uint16_t)((uint32_t)bits | sign);
}

/** bfloat16 (the upper half of a float32) to float32; exact, NaN made quiet. */
static inline float bfloat_to_float(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    uint32_t quiet = is_nan_bits(bits) ? UINT32_C(1) << 22 : 0;

    return float_from_bits(bits | quiet);
}

/** float32 to bfloat16, to nearest even. */
static inline uint16_t bfloat_from_float(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t odd = bits >> 16 & 1;
    uint32_t rounded = (bits + 0x7fff + odd) >> 16;
    uint32_t quiet = bits >> 16 | 1 << 6;

    return (uint16_t)(is_nan_bits(bits) ? quiet : rounded);
}

#endif
