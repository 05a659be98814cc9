/*
 * The conversation with an agent.
 */
#include <math.h>
#include <string.h>

#include "test/unit/unit.h"
#include "tools/check/talk.h"

UNIT_TEST(test_noise_is_told_from_facts)
{
    struct seen seen = { .name = "b" };
    struct talk talk = { .seen = &seen };
    struct tried_pair pair;

    assert_int_equal(talk_line(&talk, "Welcome to b", 0, &pair), TALK_GO_ON);
    assert_int_equal(talk_line(&talk, "gpus 7", 0, &pair), TALK_GO_ON);
    assert_int_equal(talk_line(&talk, FACTS_BEGIN, 0, &pair), TALK_GO_ON);
    assert_int_equal(talk_line(&talk, "gpus 8", 0, &pair), TALK_GO_ON);
    assert_int_equal(talk_line(&talk, "port none", 0, &pair), TALK_GO_ON);
    assert_false(seen.has_facts);
    assert_int_equal(talk_line(&talk, FACTS_END, 0, &pair), TALK_ASK_CLOCK);
    assert_true(seen.has_facts);
    assert_int_equal(seen.facts.gpus, 8);
    assert_int_equal(seen.noise_lines, 3);
    assert_string_equal(seen.noise, "Welcome to b");
}

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

UNIT_TEST(test_pairs)
{
    struct seen seen = { .name = "b" };
    struct talk talk = { .seen = &seen, .state = TALK_READY };
    struct tried_pair pair = { .to = 0 };

    assert_int_equal(talk_line(&talk, "pair 1 ok 5", 0, &pair), TALK_GO_ON);
    talk.state = TALK_PAIRS;
    assert_int_equal(talk_line(&talk, "pair 3 failed 113", 0, &pair), TALK_PAIR);
    assert_int_equal(pair.to, 3);
    assert_int_equal(pair.what, AGENT_PAIR_FAILED);
    assert_int_equal(pair.number, 113);
    assert_int_equal(talk_line(&talk, "pair 4 stranger 0", 0, &pair), TALK_PAIR);
    assert_int_equal(pair.what, AGENT_PAIR_STRANGER);
    assert_int_equal(talk_line(&talk, "pair 4 odd 0", 0, &pair), TALK_GO_ON);
    assert_int_equal(talk_line(&talk, "pear 4 ok 0", 0, &pair), TALK_GO_ON);
    assert_int_equal(talk_line(&talk, "done", 0, &pair), TALK_GO_ON);
    assert_int_equal(talk.state, TALK_READY);
    talk.state = TALK_OVER;
    assert_int_equal(talk_line(&talk, FACTS_BEGIN, 0, &pair), TALK_GO_ON);
    assert_int_equal(talk.state, TALK_OVER);
}
