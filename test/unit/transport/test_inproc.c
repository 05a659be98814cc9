/*
 * Mailboxes within one process, from one thread and from many.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "test/unit/transport/ranks.h"

enum {
    RANKS = 4,
    MESSAGES = 2000
};

UNIT_TEST(test_the_ends_know_who_they_are)
{
    struct ranks ranks;

    ranks_open(&ranks, RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
        const struct transport *end = &ranks.ends[rank];

        assert_int_equal(end->rank, rank);
        assert_int_equal(end->size, RANKS);
        assert_true(end->ops->wakes);
        assert_true(end->ops->flushed(end->state));
    }
    ranks_close(&ranks);
}

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

/* What a delivered message must be. */
struct expected {
    const unsigned char *bytes;
    size_t len;
    int messages;
};

static void compare(void *user, int from, const void *bytes, size_t len)
{
    struct expected *expected = user;

    assert_int_equal(from, 1);
    assert_int_equal(len, expected->len);
    assert_memory_equal(bytes, expected->bytes, len);
    expected->messages++;
}

UNIT_TEST(test_a_large_message_arrives_whole)
{
    struct expected expected = { .len = 3u << 20 };
    unsigned char *bytes = malloc(expected.len);
    struct ranks ranks;
    size_t i;

    assert_non_null(bytes);
    for (i = 0; i < expected.len; i++) {
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    }
    expected.bytes = bytes;
    ranks_open(&ranks, RANKS);
    assert_int_equal(send_bytes(&ranks, 1, 0, bytes, expected.len), TUTTI_OK);
    assert_int_equal(transport_poll(&ranks.ends[0], compare, &expected), TUTTI_OK);
    assert_int_equal(expected.messages, 1);
    ranks_close(&ranks);
    free(bytes);
}

UNIT_TEST(test_the_steady_state_allocates_nothing)
{
    struct ranks ranks;
    uint64_t allocations = 0;
    int round;

    ranks_open(&ranks, RANKS);
    for (round = 0; round < 100; round++) {
        if (round == 2) {
            allocations = mem_alloc_count();
        }
        send_text(&ranks, 1, 0, "some text");
        send_text(&ranks, 2, 0, "more");
        assert_polled(&ranks, 0, "1:some text;2:more;");
    }
    assert_int_equal(mem_alloc_count(), allocations);
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

/* One thread's rank, and how many messages it has of each of the others. */
struct player {
    struct transport end;
    struct doorbell *bell;
    uint32_t next[RANKS]; /* number of the next message of each rank */
    int received;
};

static void check_number(void *user, int from, const void *bytes, size_t len)
{
    struct player *player = user;
    uint32_t number;

    /* cmocka's assertions belong to the main thread: count only what is right. */
    if (len == sizeof number) {
        memcpy(&number, bytes, sizeof number);
        player->received += number == player->next[from] ? 1 : 0;
    }
    player->next[from]++;
}

static void send_to_others(const struct transport *end, uint32_t number)
{
    int to;

    for (to = 0; to < RANKS; to++) {
        if (to != end->rank) {
            (void)end->ops->send(end->state, to, &number, sizeof number);
        }
    }
}

static void *play(void *user)
{
    struct player *player = user;
    struct transport *end = &player->end;
    uint32_t i;

    for (i = 0; i < MESSAGES; i++) {
        send_to_others(end, i);
        (void)transport_poll(end, check_number, player);
    }
    while (player->received < MESSAGES * (RANKS - 1)) {
        uint32_t seen = doorbell_listen(player->bell);

        if (transport_poll(end, check_number, player) == TUTTI_AGAIN) {
            doorbell_sleep(player->bell, seen, INT64_MAX);
        }
    }
    transport_close(end);
    return NULL;
}

UNIT_TEST(test_threads_exchange_everything_in_order)
{
    struct ranks ranks;
    struct player players[RANKS];
    pthread_t threads[RANKS];
    int rank;

    ranks_open(&ranks, RANKS);
    for (rank = 0; rank < RANKS; rank++) {
        players[rank] =
                (struct player){ .end = ranks.ends[rank], .bell = &ranks.bells[rank] };
        assert_int_equal(pthread_create(&threads[rank], NULL, play, &players[rank]), 0);
    }
    for (rank = 0; rank < RANKS; rank++) {
        assert_int_equal(pthread_join(threads[rank], NULL), 0);
        assert_int_equal(players[rank].received, MESSAGES * (RANKS - 1));
    }
}
