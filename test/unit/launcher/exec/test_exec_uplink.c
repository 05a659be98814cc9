/*
 * A supervisor that has lost tuttirun: nothing is due, and what is put is dropped.
 */
#include "launcher/exec/uplink.h"
#include "test/unit/unit.h"

static uint8_t running(const void *owner)
{
    (void)owner;
    return 'R';
}

UNIT_TEST(test_nothing_is_due_without_tuttirun)
{
    static const char line[1 << 16];
    struct uplink uplink = uplink_none;

    uplink.beat_due = 1;
    uplink_lose(&uplink);
    for (int i = 0; i < 2 * SESSION_FULL / (int)sizeof line; i++) {
        wire_put_bytes(uplink_out(&uplink), line, sizeof line);
    }
    assert_true(uplink_is_full(&uplink));
    uplink_step(&uplink, 2, running);
    assert_int_equal(uplink.beat_due, INT64_MAX);
    assert_false(uplink_is_full(&uplink));
    uplink_fini(&uplink);
}
