/*
 * Conversions of the 16-bit floats, slow and by their definition.
 */
#include "test/batch/half_reference.h"

#include <math.h>

const struct small_float float16_format = { .exponent_bits = 5, .fraction_bits = 10 };
const struct small_float bfloat16_format = { .exponent_bits = 8, .fraction_bits = 7 };

static int exponent_bias(const struct small_float *format)
{
    return (1 << (format->exponent_bits - 1)) - 1;
}

double small_float_decode(const struct small_float *format, uint16_t bits)
{
    int top = (1 << format->exponent_bits) - 1;
    int exponent = bits >> format->fraction_bits & top;
    int fraction = bits & ((1 << format->fraction_bits) - 1);
    double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    int unit = 1 - exponent_bias(format) - format->fraction_bits;

    if (exponent == top) {
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, unit);
    }
    return sign * ldexp(fraction + (1 << format->fraction_bits), unit + exponent - 1);
}

uint16_t small_float_encode(const struct small_float *format, double value)
{
    int infinity = ((1 << format->exponent_bits) - 1) << format->fraction_bits;
    int smallest_exponent = 1 - exponent_bias(format);
    int sign = signbit(value) ? 0x8000 : 0;
    int exponent = 0;
    double fraction;

    if (isnan(value)) {
        return (uint16_t)(sign | infinity | 1 << (format->fraction_bits - 1));
    }
    if (isinf(value)) {
        return (uint16_t)(sign | infinity);
    }
    (void)frexp(value, &exponent); /* magnitude in [2^(exponent-1), 2^exponent) */
    exponent = exponent - 1 < smallest_exponent ? smallest_exponent : exponent - 1;
    /* In units of the last place; a carry into the exponent is just an addition. */
    fraction = nearbyint(ldexp(fabs(value), format->fraction_bits - exponent));
    if (value == 0) {
        return (uint16_t)sign;
    }
    if (exponent > exponent_bias(format)) {
        return (uint16_t)(sign | infinity);
    }
    return (uint16_t)(sign |
            (((exponent - smallest_exponent) << format->fraction_bits) +
                    (int)fraction));
}
