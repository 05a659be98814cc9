/*
 * The conversation with an agent.
 */
#include <math.h>

#include "test/unit/unit.h"
#include "tools/check/talk.h"

UNIT_TEST(test_the_fastest_clock_counts)
{
    struct seen seen = { .name = "b" };
    struct talk talk = { .seen = &seen, .state = TALK_CLOCK };
    struct tried_pair pair;

    talk.asked_real_ns = 1000000000;
    assert_int_equal(
            talk_line(&talk, "clock 6000000000", 3000000000, &pair), TALK_ASK_CLOCK);
    assert_true(fabs(seen.offset_s - 4.0) < 1e-9);
    assert_true(fabs(seen.round_trip_s - 2.0) < 1e-9);
    talk.asked_real_ns = 10000000000;
    assert_int_equal(talk_line(&talk, "bell", 10000000001, &pair), TALK_GO_ON);
    assert_int_equal(
            talk_line(&talk, "clock 13050000000", 10100000000, &pair), TALK_ASK_CLOCK);
    assert_true(fabs(seen.offset_s - 3.0) < 1e-9);
    talk.asked_real_ns = 20000000000;
    assert_int_equal(
            talk_line(&talk, "clock 29000000000", 21000000000, &pair), TALK_GO_ON);
    assert_true(fabs(seen.offset_s - 3.0) < 1e-9);
    assert_int_equal(talk.state, TALK_READY);
}
