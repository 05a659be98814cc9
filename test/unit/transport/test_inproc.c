/*
 * Mailboxes within one process, from one thread; from many they are used by test/inproc.
 */
#include "base/mem.h"
#include "test/unit/transport/ranks.h"

enum {
    RANKS = 4
};

/* The sender may use its buffer again. */
UNIT_TEST(test_messages_arrive_in_order_at_their_receiver)
{
    struct ranks ranks;
    char text[] = "one";

    ranks_open(&ranks, RANKS);
    assert_polled(&ranks, 0, "");
    send_text(&ranks, 1, 0, text);
    memset(text, '#', sizeof text - 1);
    send_text(&ranks, 2, 0, "");
    send_text(&ranks, 1, 0, "two");
    send_text(&ranks, 1, 3, "other");

    assert_polled(&ranks, 0, "1:one;2:;1:two;");
    assert_polled(&ranks, 0, "");
    assert_polled(&ranks, 3, "1:other;");
    ranks_close(&ranks);
}

UNIT_TEST(test_sending_and_waking_ring_the_receivers_bell)
{
    struct ranks ranks;

    ranks_open(&ranks, RANKS);
    send_text(&ranks, 1, 0, "x");
    assert_int_equal(doorbell_listen(&ranks.bells[0]), 1);
    ranks.ends[2].ops->wake(ranks.ends[2].state, 0);
    assert_int_equal(doorbell_listen(&ranks.bells[0]), 2);
    assert_int_equal(doorbell_listen(&ranks.bells[1]), 0);
    ranks_close(&ranks);
}

/* Answers each message with one to its sender. */
static void answer(void *user, int from, const void *bytes, size_t len)
{
    const struct transport *end = user;

    assert_int_equal(end->ops->send(end->state, from, bytes, len), TUTTI_OK);
}

UNIT_TEST(test_a_delivery_may_send)
{
    struct ranks ranks;

    ranks_open(&ranks, RANKS);
    send_text(&ranks, 1, 0, "ping");
    assert_int_equal(transport_poll(&ranks.ends[0], answer, &ranks.ends[0]), TUTTI_OK);
    assert_polled(&ranks, 1, "0:ping;");
    ranks_close(&ranks);
}

UNIT_TEST(test_what_is_sent_to_a_closed_rank_is_dropped)
{
    struct ranks ranks;

    ranks_open(&ranks, RANKS);
    send_text(&ranks, 1, 0, "unread");
    transport_close(&ranks.ends[0]);

    send_text(&ranks, 1, 0, "late");
    ranks.ends[1].ops->wake(ranks.ends[1].state, 0);
    assert_int_equal(doorbell_listen(&ranks.bells[0]), 1);
    send_text(&ranks, 1, 2, "x");
    assert_polled(&ranks, 2, "1:x;");
    for (int rank = 1; rank < RANKS; rank++) {
        transport_close(&ranks.ends[rank]);
    }
}

UNIT_TEST(test_sending_without_memory_loses_only_that_message)
{
    static const char large[1000];
    struct ranks ranks;

    ranks_open(&ranks, RANKS);
    send_text(&ranks, 1, 0, "first");
    mem_fail_at(1);
    assert_int_equal(
            send_bytes(&ranks, 1, 0, large, sizeof large), TUTTI_ERR_NO_MEMORY);
    send_text(&ranks, 1, 0, "second");
    assert_polled(&ranks, 0, "1:first;1:second;");
    ranks_close(&ranks);
}

UNIT_TEST(test_opening_survives_lack_of_memory_anywhere)
{
    struct doorbell bells[RANKS] = { { .rings = 0 } };
    struct transport ends[RANKS];
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    uint64_t n;
    int rank;

    for (n = 1; status == TUTTI_ERR_NO_MEMORY; n++) {
        mem_fail_at(n);
        status = transport_inproc_open(RANKS, bells, ends);
    }
    mem_fail_at(0);
    assert_int_equal(status, TUTTI_OK);
    assert_int_equal(n, RANKS + 3);
    for (rank = 0; rank < RANKS; rank++) {
        transport_close(&ends[rank]);
    }
}
