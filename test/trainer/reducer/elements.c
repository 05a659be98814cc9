/*
 * Conversions of all 16-bit floats, against arithmetic that knows their definition.
 */
#include "reducer/elements.h"

#include <math.h>
#include <string.h>

#include "test/unit/unit.h"

static double value_of_half(uint32_t bits)
{
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const int exponent = (int)((bits >> 10) & 31);
    const double fraction = bits & 1023;

    if (exponent == 31) {
        return fraction > 0 ? NAN : sign * INFINITY;
    }
    return exponent == 0 ? sign * ldexp(fraction, -24)
                         : sign * ldexp(1024 + fraction, exponent - 25);
}

UNIT_TEST(test_halves_are_read_and_written_as_they_are_defined)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const double expected = value_of_half(bits);
        uint16_t half = (uint16_t)bits;
        float value;

        elements_load(TUTTI_FLOAT16, &half, &value, 1);
        assert_true(isnan(expected) ? isnan(value) : value == (float)expected);
        elements_store(TUTTI_FLOAT16, &value, &half, 1);
        assert_true(isnan(expected) ? (half & 0x7fff) > 0x7c00 : half == bits);
    }
}

/* Between two neighbours: the nearer one, and of two the even one. */
UNIT_TEST(test_halves_are_rounded_to_nearest_even)
{
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        const float low = (float)value_of_half(bits);
        const float high = bits == 0x7bff ? 65536 : (float)value_of_half(bits + 1);
        const float middle = low + (high - low) / 2;
        const float values[] = { nextafterf(middle, 0), middle,
            nextafterf(middle, 1e9F) };
        uint16_t halves[3];

        elements_store(TUTTI_FLOAT16, values, halves, 3);
        assert_int_equal(halves[0], bits);
        assert_int_equal(halves[1], bits + (bits & 1));
        assert_int_equal(halves[2], bits + 1);
    }
}

UNIT_TEST(test_bfloats_are_rounded_to_nearest_even)
{
    const float values[] = { 1.0F, 1.00390625F, 1.01171875F, -3.3e38F, 3.4e38F, NAN };
    uint16_t stored[6];
    float read[6];

    elements_store(TUTTI_BFLOAT16, values, stored, 6);
    elements_load(TUTTI_BFLOAT16, stored, read, 6);
    assert_true(read[0] == 1.0F && read[1] == 1.0F && read[2] == 1.015625F);
    assert_true(
            fabsf(read[3] / -3.3e38F - 1) < 0.01F && isinf(read[4]) && isnan(read[5]));
}

UNIT_TEST(test_passes_reach_all_elements_of_every_type)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT32,
        TUTTI_FLOAT64 };
    enum {
        N = 1031
    };
    float values[N];
    float back[N];
    double memory[N];

    for (int i = 0; i < N; i++) {
        values[i] = (float)(i % 7 - 3);
    }
    for (int d = 0; d < 4; d++) {
        double expected = 0;

        elements_store(dtypes[d], values, memory, N);
        elements_scale(dtypes[d], memory, N, 2);
        elements_clamp(dtypes[d], memory, N, 5);
        elements_load(dtypes[d], memory, back, N);
        for (int i = 0; i < N; i++) {
            const float clamped = fminf(fmaxf(2 * values[i], -5), 5);

            assert_true(back[i] == clamped);
            expected += (double)clamped * (double)clamped;
        }
        assert_true(elements_squares(dtypes[d], memory, N) == expected);
    }
    memcpy(memory, (double[]){ 3e200, -4e200 },
            2 * sizeof *memory); /* of infinite squares */
    assert_true(isinf(elements_squares(TUTTI_FLOAT64, memory, 2)));
    assert_true(fabs(sqrt(elements_scaled_squares(TUTTI_FLOAT64, memory, 2, INFINITY)) *
                                (0x1p600 / 5e200) -
                        1) < 1e-15);
    memory[1] = INFINITY;
    assert_true(isinf(elements_scaled_squares(TUTTI_FLOAT64, memory, 2, INFINITY)));
    memset(memory, 0xff, sizeof memory);
    assert_true(isnan(elements_squares(TUTTI_FLOAT16, memory, N)));
}
