/*
 * Messages about the launch order that no rank sends. The order itself is looked at by the
 * simulator (test/sim/launches.c), and the backend's part of it by test/gpu.
 */
#include "device/tickets.h"
#include "test/unit/unit.h"

static const struct op_set *find_none(void *user, tutti_process_set set)
{
    (void)user;
    (void)set;
    return NULL;
}

static const struct tickets_ops ops = { .find = find_none };

UNIT_TEST(test_malformed_messages_are_refused)
{
    static const struct {
        int rank; /* that gets it */
        bool is_question;
        uint8_t bytes[8];
        size_t len;
    } cases[] = {
        { 1, false, { 0 }, 0 },
        { 1, false, { 0, 32, 0, 1, 2, 3 }, 6 }, /* a short token */
        { 1, false, { 0, 9, 0 }, 3 }, /* no such lane */
        { 0, true, { 200, 1 }, 2 }, /* no such lane */
        { 0, true, { 1, 7 }, 2 }, /* no such set */
        { 0, true, { 1 }, 1 },
        /* Questions are for the sequencer, and orders are not. */
        { 1, true, { 1, 0 }, 2 },
        { 0, false, { 0, 1, 0 }, 3 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tickets tickets;
        tutti_status status;

        tickets_init(&tickets, &ops, NULL, cases[i].rank, 2, 2);
        status = tickets_receive(&tickets, 1 - cases[i].rank, cases[i].is_question,
                cases[i].bytes, cases[i].len);
        if (status != TUTTI_ERR_PROTOCOL) {
            fail_msg("message %zu: %d", i, (int)status);
        }
        tickets_fini(&tickets);
    }
}

UNIT_TEST(test_without_an_order_every_message_is_refused)
{
    static const uint8_t order[] = { 0, 1, 0 };
    struct tickets tickets;

    tickets_init(&tickets, NULL, NULL, 1, 2, 2);
    assert_int_equal(tickets_receive(&tickets, 0, false, order, sizeof order),
            TUTTI_ERR_PROTOCOL);
    tickets_fini(&tickets);
}
