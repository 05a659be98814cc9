/*
 * The 16-bit float conversions, on all bits and around every rounding boundary.
 */
#include <math.h>

#include "ops/reduce/half.h"
#include "test/batch/half_reference.h"
#include "test/unit/unit.h"

static bool is_nan_of(const struct small_float *format, uint16_t bits)
{
    return isnan(small_float_decode(format, bits));
}

UNIT_TEST(test_every_half_widens_exactly)
{
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        float wide = half_to_float((uint16_t)bits);
        double expected = small_float_decode(&float16_format, (uint16_t)bits);

        if (isnan(expected)) {
            assert_true(isnan(wide));
        } else {
            assert_int_equal(float_bits(wide), float_bits((float)expected));
        }
    }
}

UNIT_TEST(test_every_bfloat_widens_exactly)
{
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        float wide = bfloat_to_float((uint16_t)bits);
        double expected = small_float_decode(&bfloat16_format, (uint16_t)bits);

        if (isnan(expected)) {
            assert_true(isnan(wide));
        } else {
            assert_int_equal(float_bits(wide), float_bits((float)expected));
        }
    }
}

UNIT_TEST(test_every_half_survives_a_round_trip)
{
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t back = half_from_float(half_to_float((uint16_t)bits));
        uint32_t quiet = is_nan_of(&float16_format, (uint16_t)bits) ? 0x0200u : 0;

        assert_int_equal(back, bits | quiet);
    }
}

UNIT_TEST(test_every_bfloat_survives_a_round_trip)
{
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t back = bfloat_from_float(bfloat_to_float((uint16_t)bits));
        uint32_t quiet = is_nan_of(&bfloat16_format, (uint16_t)bits) ? 0x0040u : 0;

        assert_int_equal(back, bits | quiet);
    }
}

static void check_narrowing(uint32_t bits)
{
    float value = float_from_bits(bits);
    uint16_t half = half_from_float(value);
    uint16_t bfloat = bfloat_from_float(value);

    if (isnan(value)) {
        assert_true(is_nan_of(&float16_format, half));
        assert_true(is_nan_of(&bfloat16_format, bfloat));
        assert_true((half & 0x0200) != 0 && (bfloat & 0x0040) != 0);
        assert_int_equal(half >> 15, bits >> 31);
        assert_int_equal(bfloat >> 15, bits >> 31);
        return;
    }
    assert_int_equal(half, small_float_encode(&float16_format, (double)value));
    assert_int_equal(bfloat, small_float_encode(&bfloat16_format, (double)value));
}

/* Floats next to every half, and next to every middle between two, where ties lie. */
UNIT_TEST(test_floats_around_every_half_round_to_nearest_even)
{
    for (uint32_t bits = 0; bits < UINT16_MAX; bits++) {
        float here = half_to_float((uint16_t)bits);
        float next = half_to_float((uint16_t)(bits + 1));
        uint32_t middle = float_bits((here + next) / 2);

        for (uint32_t delta = 0; delta < 5; delta++) {
            check_narrowing(float_bits(here) + delta - 2);
            check_narrowing(middle + delta - 2);
        }
    }
}

UNIT_TEST(test_floats_around_every_bfloat_round_to_nearest_even)
{
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        for (uint32_t delta = 0; delta < 5; delta++) {
            check_narrowing((bits << 16) + delta - 2);
            check_narrowing((bits << 16) + 0x8000 + delta - 2);
        }
    }
}

UNIT_TEST(test_floats_spread_over_all_bits_round_to_nearest_even)
{
    const uint32_t stride = 4099; /* prime, so that all low bits are met */

    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += stride) {
        check_narrowing((uint32_t)bits);
    }
}

UNIT_TEST(test_half_overflows_to_infinity_from_65520_on)
{
    assert_int_equal(half_from_float(65504.0F), 0x7bff);
    assert_int_equal(half_from_float(nextafterf(65520.0F, 0.0F)), 0x7bff);
    assert_int_equal(half_from_float(65520.0F), 0x7c00);
    assert_int_equal(half_from_float(-1e30F), 0xfc00);
}

UNIT_TEST(test_half_underflows_below_half_its_smallest_subnormal)
{
    const float smallest = 0x1p-24F;

    assert_int_equal(half_from_float(smallest), 0x0001);
    assert_int_equal(half_from_float(smallest / 2), 0x0000);
    assert_int_equal(half_from_float(nextafterf(smallest / 2, 1.0F)), 0x0001);
    assert_int_equal(half_from_float(-0x1p-140F), 0x8000);
}
