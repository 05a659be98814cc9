/*
 * Names and properties of the public enums: numbers that travel between ranks and texts
 * that users see stay what they are.
 */
#include <stdio.h>

#include "base/status.h"
#include "test/unit/unit.h"

UNIT_TEST(test_wire_numbers_are_frozen)
{
    assert_int_equal(TUTTI_ERR_INTERNAL, -15);
    assert_int_equal(TUTTI_ERR_MISMATCH, -4);
    assert_int_equal(TUTTI_FLOAT8_E5M2, 14);
    assert_int_equal(TUTTI_FLOAT32, 10);
    assert_int_equal(TUTTI_SET_AVERAGE, 5);
    assert_int_equal(TUTTI_BARRIER, 2);
}

UNIT_TEST(test_only_members_are_valid)
{
    int64_t number;

    for (number = -40; number <= 40; number++) {
        assert_int_equal(status_is_valid(number), number >= -15 && number <= 1);
        assert_int_equal(dtype_is_valid(number), number >= 0 && number <= 14);
        assert_int_equal(reduce_op_is_valid(number), number >= 0 && number <= 5);
        assert_int_equal(collective_is_valid(number), number >= 0 && number <= 9);
    }
    /* Numbers that become members when cut to an int. */
    assert_false(status_is_valid(INT64_C(1) << 32));
    assert_false(dtype_is_valid(INT64_C(1) << 32));
    assert_false(reduce_op_is_valid(INT64_MIN));
    assert_false(collective_is_valid(INT64_C(1) << 32));
}

UNIT_TEST(test_dtypes_are_float_or_opaque_or_neither)
{
    int dtype;

    for (dtype = TUTTI_UINT8; dtype <= TUTTI_FLOAT8_E5M2; dtype++) {
        assert_int_equal(dtype_is_float((tutti_dtype)dtype),
                dtype >= TUTTI_FLOAT16 && dtype <= TUTTI_FLOAT64);
        assert_int_equal(
                dtype_is_opaque((tutti_dtype)dtype), dtype >= TUTTI_FLOAT8_E4M3);
    }
}

UNIT_TEST(test_every_member_has_a_name_of_its_own)
{
    int number;

    for (number = TUTTI_ERR_INTERNAL; number < TUTTI_AGAIN; number++) {
        tutti_status status = (tutti_status)number;
        tutti_status next = (tutti_status)(number + 1);

        assert_string_not_equal(tutti_status_name(status), tutti_status_name(next));
        assert_string_not_equal(tutti_status_text(status), tutti_status_text(next));
        assert_string_not_equal(tutti_status_name(status), "unknown status");
    }
    for (number = TUTTI_UINT8; number <= TUTTI_FLOAT8_E5M2; number++) {
        assert_string_not_equal(tutti_dtype_name((tutti_dtype)number),
                tutti_dtype_name((tutti_dtype)(number + 1)));
        assert_in_range(tutti_dtype_size((tutti_dtype)number), 1, 8);
    }
}

UNIT_TEST(test_the_version_is_that_of_the_header)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%d.%d.%d", TUTTI_VERSION_MAJOR,
            TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    assert_string_equal(tutti_version(), text);
}
