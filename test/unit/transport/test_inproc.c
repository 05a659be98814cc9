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
