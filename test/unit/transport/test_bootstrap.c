/*
 * Meetings at the start: what every rank gets, that nothing of a later phase is lost, and
 * how they fail. Some tests play a rank's peers by hand: they put the peers' messages into
 * its mailbox before it starts.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "test/unit/transport/ranks.h"
#include "transport/mail.h"

enum {
    ROUNDS = 3,
    BLOCK_MAX = 5000
};

static const int sizes[] = { 1, 2, 3, 5, 17, 64 };

/* A block that is different for each rank and round, some of them empty. */
static void put_block(struct wire_writer *out, int rank, int round)
{
    size_t len = (size_t)(rank * 37 + round * 11) % BLOCK_MAX;

    for (size_t i = 0; i < len; i++) {
        wire_put_u8(out, (uint8_t)((size_t)rank * 5 + (size_t)round * 3 + i));
    }
}

/* True when the mail is the blocks of a group in this round. */
static bool mail_is_right(
        const struct transport_group *group, int round, const struct wire_writer *mail)
{
    struct wire_writer expected = { 0 };
    bool is_right;

    for (int place = 0; place < group->size; place++) {
        const int rank = group->ranks == NULL ? place : group->ranks[place];
        struct wire_writer block = { 0 };

        put_block(&block, rank, round);
        if (block.len > 0) {
            assert_true(mail_put(&expected, rank, block.data, block.len));
        }
        wire_writer_fini(&block);
    }
    is_right = expected.len == mail->len &&
            (mail->len == 0 || memcmp(expected.data, mail->data, mail->len) == 0);
    wire_writer_fini(&expected);
    return is_right;
}

/* One thread's rank. */
struct player {
    struct transport end;
    tutti_status mine; /* with which it comes to a meeting */
    tutti_status status; /* that it leaves one with */
    char error[128];
    int right; /* rounds with the right blocks */
    int engine_messages; /* messages of the phase after the meetings */
};

static void count_engine_message(void *user, int from, const void *bytes, size_t len)
{
    struct player *player = user;
    int sender = -1;

    if (len == sizeof sender) {
        memcpy(&sender, bytes, sizeof sender);
    }
    player->engine_messages += sender == from ? 1 : 0;
}

/* All meet, or in odd rounds those whose numbers end in the same bit. */
static void play_round(struct player *player, int round)
{
    struct transport *end = &player->end;
    struct wire_writer block = { 0 };
    struct wire_writer mail = { 0 };
    struct transport_group group = { .size = end->size, .me = end->rank };
    int ranks[RANKS_MAX];

    if (round % 2 == 1) {
        group = (struct transport_group){ .ranks = ranks, .me = end->rank / 2 };
        for (int r = end->rank % 2; r < end->size; r += 2) {
            ranks[group.size++] = r;
        }
    }
    put_block(&block, end->rank, round);
    if (transport_collect(end, round % 2 == 1 ? &group : NULL, TUTTI_OK, &block,
                &mail) == TUTTI_OK) {
        player->right += mail_is_right(&group, round, &mail) ? 1 : 0;
    }
    wire_writer_fini(&block);
    wire_writer_fini(&mail);
}

/* Meets a few times, then does what an engine may do: talks to everybody at once. */
static void *play(void *user)
{
    struct player *player = user;
    struct transport *end = &player->end;

    for (int round = 0; round < ROUNDS; round++) {
        play_round(player, round);
    }
    for (int to = 0; to < end->size; to++) {
        if (to != end->rank) {
            (void)end->ops->send(end->state, to, &end->rank, sizeof end->rank);
        }
    }
    while (player->engine_messages < end->size - 1) {
        (void)transport_poll(end, count_engine_message, player);
    }
    return NULL;
}

/* Comes to one meeting. */
static void *come(void *user)
{
    struct player *player = user;
    struct wire_writer block = { 0 };
    struct wire_writer mail = { 0 };

    if (player->mine != TUTTI_OK) {
        player->mine = error_set(player->mine, "no licence");
    }
    player->status = transport_collect(&player->end, NULL, player->mine, &block, &mail);
    (void)snprintf(player->error, sizeof player->error, "%s", tutti_last_error());
    wire_writer_fini(&mail);
    return NULL;
}

static void run(struct player *players, int size, void *(*main)(void *))
{
    static struct ranks ranks;
    pthread_t threads[RANKS_MAX];

    ranks_open(&ranks, size);
    for (int r = 0; r < size; r++) {
        players[r].end = ranks.ends[r];
        assert_int_equal(pthread_create(&threads[r], NULL, main, &players[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    }
    for (int r = 0; r < size; r++) {
        transport_close(&players[r].end);
    }
}

UNIT_TEST(test_all_ranks_get_all_blocks)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct player players[RANKS_MAX] = { { .right = 0 } };

        run(players, sizes[i], play);
        for (int r = 0; r < sizes[i]; r++) {
            assert_int_equal(players[r].right, ROUNDS);
            assert_int_equal(players[r].engine_messages, sizes[i] - 1);
        }
    }
}

UNIT_TEST(test_a_rank_that_cannot_start_lets_nobody_wait)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int failed = 0; failed < sizes[i]; failed += 1 + sizes[i] / 6) {
            struct player players[RANKS_MAX] = { { .right = 0 } };

            players[failed].mine = TUTTI_ERR_CONFIG;
            run(players, sizes[i], come);
            for (int r = 0; r < sizes[i]; r++) {
                assert_int_equal(players[r].status,
                        r == failed ? TUTTI_ERR_CONFIG : TUTTI_ERR_PROTOCOL);
            }
            assert_string_equal(players[failed].error, "no licence");
        }
    }
}

/* Rank `from` tells another what it and those below it say: blocks of ranks, "0zero". */
static void say(struct ranks *ranks, int from, int to, const char *const *blocks)
{
    struct wire_writer out = { .data = NULL };

    wire_put_u8(&out, 1);
    for (; *blocks != NULL; blocks++) {
        assert_true(mail_put(&out, **blocks - '0', *blocks + 1, strlen(*blocks) - 1));
    }
    assert_int_equal(send_bytes(ranks, from, to, out.data, out.len), TUTTI_OK);
    wire_writer_fini(&out);
}

#define SAY(ranks, from, to, ...) \
    say(ranks, from, to, (const char *const[]){ __VA_ARGS__, NULL })

/* A rank meets with a block; @return the status, and what all say: "0:zero;1:one;" */
static tutti_status meet_as(struct ranks *ranks, int rank,
        const struct transport_group *group, const char *text, struct inbox *all)
{
    struct wire_writer block = { .data = NULL };
    struct wire_writer mail = { .data = NULL };
    tutti_status status;

    *all = (struct inbox){ .used = 0 };
    wire_put_bytes(&block, text, strlen(text));
    status = transport_collect(&ranks->ends[rank], group, TUTTI_OK, &block, &mail);
    mail_deliver(&mail, inbox_keep, all);
    wire_writer_fini(&mail);
    wire_writer_fini(&block);
    return status;
}

static void assert_meets(struct ranks *ranks, int rank,
        const struct transport_group *group, const char *text, const char *expected)
{
    struct inbox all;

    assert_int_equal(meet_as(ranks, rank, group, text, &all), TUTTI_OK);
    assert_string_equal(all.text, expected);
}

UNIT_TEST(test_messages_for_the_engine_are_delivered_after_it)
{
    struct ranks ranks;

    ranks_open(&ranks, 2);
    SAY(&ranks, 0, 1, "0zero", "1one");
    send_text(&ranks, 0, 1, "early");
    send_text(&ranks, 0, 1, "");
    assert_meets(&ranks, 1, NULL, "one", "0:zero;1:one;");

    send_text(&ranks, 0, 1, "late");
    assert_polled(&ranks, 1, "0:early;0:;");
    assert_polled(&ranks, 1, "0:late;");
    assert_polled(&ranks, 0, "1:\1\1\3one;");
    ranks_close(&ranks);
}

/* Of four ranks 1 and 2 are neighbours: 2 is already there, before 1 hears of all. */
UNIT_TEST(test_messages_for_the_next_meeting_are_kept_for_it)
{
    static const int both[] = { 1, 2 };
    static const struct transport_group group = { .ranks = both, .size = 2, .me = 0 };
    struct ranks ranks;

    ranks_open(&ranks, 4);
    SAY(&ranks, 2, 1, "2c");
    send_text(&ranks, 3, 1, "engine");
    SAY(&ranks, 0, 1, "0a", "1b");
    assert_meets(&ranks, 1, NULL, "b", "0:a;1:b;");
    assert_meets(&ranks, 1, &group, "b", "1:b;2:c;");
    assert_polled(&ranks, 1, "3:engine;");
    ranks_close(&ranks);
}

UNIT_TEST(test_children_are_heard_in_order)
{
    struct ranks ranks;

    ranks_open(&ranks, 5);
    SAY(&ranks, 4, 0, "4e");
    SAY(&ranks, 2, 0, "2c", "3d");
    SAY(&ranks, 1, 0, "1b");
    assert_meets(&ranks, 0, NULL, "a", "0:a;1:b;2:c;3:d;4:e;");
    ranks_close(&ranks);
}

/* A transport of rank 1 of 2 that fails or dawdles as told. */
struct fake {
    tutti_status send_status;
    tutti_status poll_status; /* returned instead of delivering, unless TUTTI_OK */
    int polls_until_flushed;
};

static tutti_status fake_send(void *state, int to, const void *bytes, size_t len)
{
    (void)to;
    (void)bytes;
    (void)len;
    return ((struct fake *)state)->send_status;
}

static tutti_status fake_poll(void *state, transport_deliver deliver, void *user)
{
    struct fake *fake = state;

    fake->polls_until_flushed--;
    if (fake->poll_status != TUTTI_OK) {
        return fake->poll_status;
    }
    deliver(user, 0, "\1\0\4zero\1\3one", 12);
    fake->poll_status = TUTTI_AGAIN;
    return TUTTI_OK;
}

static bool fake_flushed(void *state)
{
    return ((struct fake *)state)->polls_until_flushed <= 0;
}

static const struct transport_ops fake_ops = {
    .name = "fake",
    .send = fake_send,
    .poll = fake_poll,
    .flushed = fake_flushed,
};

static tutti_status gather_over_fake(struct fake *fake)
{
    struct transport end = { .ops = &fake_ops, .state = fake, .rank = 1, .size = 2 };
    struct wire_writer block = { .data = NULL };
    struct wire_writer mail = { .data = NULL };
    const tutti_status status = transport_collect(&end, NULL, TUTTI_OK, &block, &mail);

    wire_writer_fini(&mail);
    return status;
}

UNIT_TEST(test_errors_of_the_transport_are_passed_on)
{
    struct fake no_send = { .send_status = TUTTI_ERR_MPI };
    struct fake no_poll = { .poll_status = TUTTI_ERR_MPI };

    assert_int_equal(gather_over_fake(&no_send), TUTTI_ERR_MPI);
    assert_int_equal(gather_over_fake(&no_poll), TUTTI_ERR_MPI);
}

UNIT_TEST(test_nobody_leaves_before_its_messages_have_left)
{
    struct fake slow = { .polls_until_flushed = 40 };

    assert_int_equal(gather_over_fake(&slow), TUTTI_OK);
    assert_int_equal(slow.polls_until_flushed, 0);
}

/* Rank 2 of four, with a parent and a child, out of memory at one place after the other. */
UNIT_TEST(test_a_rank_survives_lack_of_memory_and_lets_nobody_wait)
{
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    uint64_t n;

    for (n = 1; status == TUTTI_ERR_NO_MEMORY; n++) {
        struct ranks ranks;
        struct inbox up = { .used = 0 };
        struct inbox down = { .used = 0 };
        struct inbox all;

        ranks_open(&ranks, 4);
        send_text(&ranks, 1, 2, "early");
        SAY(&ranks, 3, 2, "3d");
        SAY(&ranks, 0, 2, "0a", "1b", "2c", "3d");
        mem_fail_at(n);
        status = meet_as(&ranks, 2, NULL, "c", &all);
        mem_fail_at(0);
        if (status == TUTTI_OK) {
            assert_string_equal(all.text, "0:a;1:b;2:c;3:d;");
            assert_polled(&ranks, 2, "1:early;");
        }
        assert_int_equal(transport_poll(&ranks.ends[0], inbox_keep, &up), TUTTI_OK);
        assert_int_equal(transport_poll(&ranks.ends[3], inbox_keep, &down), TUTTI_OK);
        ranks_close(&ranks);
    }
    assert_int_equal(status, TUTTI_OK);
    assert_true(n > 6);
}
