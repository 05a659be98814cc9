/*
 * Which step is expected: how many of a row of uses come as expected, from which use on.
 */
#include "agree/steps.h"
#include "test/unit/unit.h"

/* Uses with a step that was not expected, among those behind the first. */
static int surprises(const uint64_t *uses, int count)
{
    struct steps steps = { 0 };
    int surprised = 0;

    for (int i = 0; i < count; i++) {
        surprised += i > 0 && steps_next(&steps) != uses[i] ? 1 : 0;
        steps_take(&steps, uses[i]);
    }
    return surprised;
}

#define SURPRISES(...) \
    surprises((const uint64_t[]){ __VA_ARGS__ }, \
            (int)(sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t)))

UNIT_TEST(test_what_grows_evenly_is_expected)
{
    assert_int_equal(SURPRISES(1, 2, 3, 4, 5), 0);
    assert_int_equal(SURPRISES(100, 99, 98, 97), 1);
    assert_int_equal(SURPRISES(4, 14, 24, 34, 44), 1);
    assert_int_equal(SURPRISES(7, 7, 7, 7, 7), 1);
    assert_int_equal(SURPRISES(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5), 2);
    assert_int_equal(SURPRISES(0, 0, 0, 0), 0);
}

UNIT_TEST(test_a_jump_does_not_change_what_is_expected)
{
    assert_int_equal(SURPRISES(1, 2, 3, 500, 501, 502, 20, 21), 2);
    /* Twice the same one does. */
    assert_int_equal(SURPRISES(1, 2, 3, 13, 23, 33, 43), 2);
    assert_int_equal(SURPRISES(1, 2, 0, 0, 5, 6, 0, 7, 8), 4);
}

UNIT_TEST(test_no_number_is_too_large)
{
    const uint64_t top = (uint64_t)INT64_MAX + 1;
    const uint64_t far = (uint64_t)INT32_MAX + 2;

    assert_int_equal(SURPRISES(top - 1, top, 1, top, 1), 3);
    /* What is kept of a change is 32 bits: a stride that does not fit is not learned. */
    assert_int_equal(SURPRISES(1, 1 + far, 1 + 2 * far, 1 + 3 * far, 2 + 3 * far), 3);
    assert_int_equal(SURPRISES(1 + 3 * far, 1 + 2 * far, 1 + far, 1), 3);
    assert_int_equal(SURPRISES(1, far - 1, 2 * far - 3), 1);
}
