/*
 * How slow a link is said to be: 100 MB/s, 20 us, and messages of 1 MB that arrive when we say.
 */
#include "observe/recorder.h"
#include "ops/p2p/meter.h"
#include "test/unit/unit.h"

enum {
    PEER = 1,
    MESSAGE = 1000000,
    MS = 1000000
};

static struct recorder_link links[2];
static const struct op_env env = {
    .world_size = 2, .link = { .latency_us = 20, .bytes_per_us = 100 }, .links = links
};
static struct meter meter;
static int64_t now;

static int open_meter(void **state)
{
    (void)state;
    links[PEER] = (struct recorder_link){ .weight = 0 };
    meter_init(&meter, &env);
    assert_true(meter_is_on(&meter));
    return 0;
}

static int close_meter(void **state)
{
    (void)state;
    meter_fini(&meter);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, open_meter, close_meter)

/* Messages that are awaited two at a time, each of which takes so long. */
static void stream(int messages, double ms)
{
    meter_await(&meter, PEER, now);
    for (int i = 0; i < messages; i++) {
        if (i + 1 < messages) {
            meter_await(&meter, PEER, now);
        }
        now += (int64_t)(ms * MS);
        meter_arrived(&meter, PEER, MESSAGE, now);
    }
}

static void expect(double least, double most)
{
    const double got = (double)links[PEER].slowness / RECORDER_LINK_UNIT;

    if (got < least || got > most) {
        fail_msg("%g is not between %g and %g", got, least, most);
    }
}

TEST(test_a_link_as_fast_as_at_the_start)
{
    stream(1000, 10);
    expect(0.7, 1.2);
    assert_in_range(links[PEER].kbs, 99000, 101000);
    assert_in_range(links[PEER].weight, 100, 1000);
}

TEST(test_a_link_becomes_slow_and_fast_again)
{
    stream(1000, 10);
    stream(20, 100);
    expect(5, 11);
    assert_in_range(links[PEER].kbs, 9000, 30000);
    stream(200, 10);
    expect(0.7, 1.2);
}

TEST(test_a_pause_is_no_slow_link)
{
    stream(1000, 10);
    stream(1, 5000);
    expect(0.7, 1.5);
}

TEST(test_a_peer_that_begins_a_millisecond_later_is_not_slow)
{
    for (int i = 0; i < 1000; i++) {
        meter_await(&meter, PEER, now);
        now += MS;
        meter_arrived(&meter, PEER, 1000, now);
    }
    expect(0.5, 1.5);
}

TEST(test_time_in_which_nothing_is_awaited_does_not_count)
{
    for (int i = 0; i < 100; i++) {
        stream(1, 10);
        now += 100 * (int64_t)MS;
    }
    expect(0.7, 1.2);
    assert_in_range(links[PEER].kbs, 99000, 101000);
}
