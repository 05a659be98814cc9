/*
 * Conversions of the 16-bit floats, slow and by their definition: exact arithmetic in
 * double, one rounding to nearest even.
 */
#ifndef TUTTI_TEST_BATCH_HALF_REFERENCE_H
#define TUTTI_TEST_BATCH_HALF_REFERENCE_H

#include <stdint.h>

/** A binary float of 16 bits with a sign. */
struct small_float {
    int exponent_bits;
    int fraction_bits;
};

extern const struct small_float float16_format;
extern const struct small_float bfloat16_format;

/** The value of the bits; any NaN for a NaN. */
double small_float_decode(const struct small_float *format, uint16_t bits);

/** The bits nearest to a value; the quiet NaN without payload for a NaN. */
uint16_t small_float_encode(const struct small_float *format, double value);

#endif
