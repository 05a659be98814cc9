/*
 * The offset of a supervisor's clock, from beats with a way there and a way back.
 */
#include "launcher/session/link.h"
#include "test/unit/unit.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)

/*
 * A beat that left us at `sent` and came back: `there` and `back` are the ways, the
 * supervisor held it for 5 ms and its clock is `ahead`.
 */
static int64_t go(
        struct offset *offset, int64_t sent, int64_t there, int64_t back, int64_t ahead)
{
    int64_t held = 5 * MS;
    const struct link_beat beat = {
        .sent = (uint64_t)(sent + there + held + ahead),
        .echo = (uint64_t)sent,
        .held = (uint64_t)held,
    };
    int64_t now = sent + there + held + back;

    offset_learn(offset, &beat, now);
    return now;
}

UNIT_TEST(test_even_ways_give_the_offset)
{
    struct offset offset = { .is_known = false };
    int64_t doubt;
    int64_t now;

    now = go(&offset, 100 * S, 2 * MS, 2 * MS, 7 * S);
    assert_true(offset.is_known);
    assert_int_equal(offset.ahead_ns, 7 * S);
    assert_int_equal(offset_ours(&offset, (uint64_t)(106 * S), now, &doubt), 99 * S);
    assert_int_equal(doubt, 2 * MS);
}

UNIT_TEST(test_uneven_ways_are_wrong_by_the_doubt_at_most)
{
    struct offset offset = { .is_known = false };
    int64_t doubt;
    int64_t now = go(&offset, 100 * S, 9 * MS, 1 * MS, 0);
    int64_t ours = offset_ours(&offset, (uint64_t)(50 * S), now, &doubt);

    assert_true(ours >= 50 * S - doubt && ours <= 50 * S + doubt);
}

UNIT_TEST(test_nonsense_teaches_nothing)
{
    static const struct link_beat beats[] = {
        { .sent = 5, .echo = 0, .held = 0 },
        { .sent = 5, .echo = 2000, .held = 0 },
        { .sent = 5, .echo = 900, .held = 200 },
        { .sent = 5, .echo = 900, .held = UINT64_MAX },
        { .sent = UINT64_MAX, .echo = 900, .held = 1 },
        { .sent = 5, .echo = UINT64_MAX, .held = 1 },
        { .sent = 5, .echo = UINT64_C(1) << 63, .held = 1 },
    };
    struct offset offset = { .is_known = false };
    int64_t doubt;

    for (size_t i = 0; i < sizeof beats / sizeof beats[0]; i++) {
        offset_learn(&offset, &beats[i], 1000);
        assert_false(offset.is_known);
    }
    assert_int_equal(offset_ours(&offset, 77, 1000, &doubt), 1000);
}

UNIT_TEST(test_times_that_no_clock_shows_are_between_0_and_now)
{
    struct offset offset = { .is_ours = true };
    const int64_t now = 100 * S;
    int64_t doubt;

    assert_int_equal(offset_ours(&offset, UINT64_MAX, now, &doubt), now);
    assert_int_equal(offset_ours(&offset, INT64_MAX, now, &doubt), now);
    offset.ahead_ns = -INT64_MAX;
    assert_int_equal(offset_ours(&offset, INT64_MAX, now, &doubt), now);
    offset.ahead_ns = INT64_MAX;
    assert_int_equal(offset_ours(&offset, 0, now, &doubt), 0);
}

UNIT_TEST(test_a_clock_of_this_machine_is_not_measured)
{
    struct offset offset = { .is_ours = true };
    int64_t doubt = 1;
    int64_t now = 100 * S;

    assert_int_equal(offset_ours(&offset, (uint64_t)(99 * S), now, &doubt), 99 * S);
    assert_int_equal(doubt, 0);
    now = go(&offset, now, 90 * MS, 2 * MS, 0);
    assert_int_equal(offset_ours(&offset, (uint64_t)(99 * S), now, &doubt), 99 * S);
    assert_int_equal(doubt, 0);
}
