/*
 * The allgather at the start: what every rank gets, that nothing of a later phase is
 * lost, and how it fails. Some tests play a rank's peers by hand: they put the peers'
 * messages into its mailbox before it starts.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "test/unit/transport/ranks.h"
#include "transport/mail.h"

enum {
    ROUNDS = 3,
    BLOCK_MAX = 5000
};

/* A block that is different for each rank and round, some of them empty. */
static size_t block_of(int rank, int round, uint8_t *bytes)
{
    size_t len = (size_t)(rank * 37 + round * 11) % BLOCK_MAX;
    size_t i;

    for (i = 0; i < len; i++) {
        bytes[i] = (uint8_t)((size_t)rank * 5 + (size_t)round * 3 + i);
    }
    return len;
}

/* True when the blocks are those of all ranks in this round. */
static bool blocks_are_right(
        int size, int round, const uint8_t *const *blocks, const size_t *lengths)
{
    uint8_t expected[BLOCK_MAX];
    int rank;

    for (rank = 0; rank < size; rank++) {
        size_t len = block_of(rank, round, expected);

        if (lengths[rank] != len || memcmp(blocks[rank], expected, len) != 0) {
            return false;
        }
    }
    return true;
}

/* One thread's rank. */
struct player {
    struct transport end;
    int right; /* rounds with the right blocks */
    int engine_messages; /* messages of the phase after the allgather */
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

/* Gathers a few times, then does what an engine may do: talks to everybody at once. */
static void *play(void *user)
{
    struct player *player = user;
    struct transport *end = &player->end;
    uint8_t mine[BLOCK_MAX];
    int round, to;

    for (round = 0; round < ROUNDS; round++) {
        size_t len = block_of(end->rank, round, mine);
        const uint8_t **blocks = NULL;
        size_t *lengths = NULL;

        if (transport_allgather(end, mine, len, &blocks, &lengths) == TUTTI_OK) {
            player->right +=
                    blocks_are_right(end->size, round, blocks, lengths) ? 1 : 0;
            mem_free(blocks);
        }
    }
    for (to = 0; to < end->size; to++) {
        if (to != end->rank) {
            (void)end->ops->send(end->state, to, &end->rank, sizeof end->rank);
        }
    }
    while (player->engine_messages < end->size - 1) {
        (void)transport_poll(end, count_engine_message, player);
    }
    transport_close(end);
    return NULL;
}

static void gather_with_threads(int size)
{
    static struct ranks ranks;
    static struct player players[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    int rank;

    ranks_open(&ranks, size);
    for (rank = 0; rank < size; rank++) {
        players[rank] = (struct player){ .end = ranks.ends[rank] };
        assert_int_equal(pthread_create(&threads[rank], NULL, play, &players[rank]), 0);
    }
    for (rank = 0; rank < size; rank++) {
        assert_int_equal(pthread_join(threads[rank], NULL), 0);
        assert_int_equal(players[rank].right, ROUNDS);
        assert_int_equal(players[rank].engine_messages, size - 1);
    }
}

UNIT_TEST(test_all_ranks_get_all_blocks)
{
    static const int sizes[] = { 1, 2, 3, 7, 64 };
    size_t i;

    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gather_with_threads(sizes[i]);
    }
}

/* Sends rank 1 what rank 0 sends at the end, with these two blocks. */
static void send_result(struct ranks *ranks, const char *zero, const char *one)
{
    struct wire_writer mail = { .data = NULL };

    assert_true(mail_put(&mail, 0, zero, strlen(zero)));
    assert_true(mail_put(&mail, 1, one, strlen(one)));
    assert_int_equal(send_bytes(ranks, 0, 1, mail.data, mail.len), TUTTI_OK);
    wire_writer_fini(&mail);
}

UNIT_TEST(test_messages_for_the_engine_are_delivered_after_it)
{
    struct ranks ranks;
    const uint8_t **blocks;
    size_t *lengths;
    struct transport *end = &ranks.ends[1];

    ranks_open(&ranks, 2);
    send_result(&ranks, "zero", "one");
    send_text(&ranks, 0, 1, "early");
    send_text(&ranks, 0, 1, "");

    assert_int_equal(transport_allgather(end, "one", 3, &blocks, &lengths), TUTTI_OK);
    assert_int_equal(lengths[0], 4);
    assert_memory_equal(blocks[0], "zero", 4);
    assert_memory_equal(blocks[1], "one", 3);
    mem_free(blocks);

    send_text(&ranks, 0, 1, "late");
    assert_polled(&ranks, 1, "0:early;0:;");
    assert_polled(&ranks, 1, "0:late;");
    assert_polled(&ranks, 0, "1:one;");
    ranks_close(&ranks);
}

UNIT_TEST(test_early_messages_pass_through_another_allgather)
{
    struct ranks ranks;
    const uint8_t **blocks;
    size_t *lengths;
    struct transport *end = &ranks.ends[1];
    int round;

    ranks_open(&ranks, 3);
    for (round = 0; round < 2; round++) {
        struct wire_writer mail = { .data = NULL };

        assert_true(mail_put(&mail, 2, "c", 1));
        assert_true(mail_put(&mail, 0, "a", 1));
        assert_true(mail_put(&mail, 1, "b", 1));
        send_text(&ranks, 2, 1, round == 0 ? "first" : "second");
        assert_int_equal(send_bytes(&ranks, 0, 1, mail.data, mail.len), TUTTI_OK);
        wire_writer_fini(&mail);

        assert_int_equal(transport_allgather(end, "b", 1, &blocks, &lengths), TUTTI_OK);
        assert_memory_equal(blocks[2], "c", 1);
        mem_free(blocks);
    }
    assert_polled(&ranks, 1, "2:first;2:second;");
    ranks_close(&ranks);
}

static tutti_status gather_malformed(const void *result, size_t len)
{
    struct ranks ranks;
    const uint8_t **blocks = NULL;
    size_t *lengths = NULL;
    tutti_status status;

    ranks_open(&ranks, 2);
    assert_int_equal(send_bytes(&ranks, 0, 1, result, len), TUTTI_OK);
    status = transport_allgather(&ranks.ends[1], "one", 3, &blocks, &lengths);
    if (status == TUTTI_OK) {
        mem_free(blocks);
    } else {
        assert_null(blocks);
        assert_null(lengths);
    }
    ranks_close(&ranks);
    return status;
}

UNIT_TEST(test_malformed_results_are_refused)
{
    static const char whole[] = "\0\4zero\1\3one";
    static const char twice[] = "\0\4zero\0\3one";
    static const char stranger[] = "\0\4zero\2\3one";
    size_t len;

    for (len = 0; len < sizeof whole - 1; len++) {
        assert_int_equal(gather_malformed(whole, len), TUTTI_ERR_PROTOCOL);
    }
    assert_int_equal(gather_malformed(whole, sizeof whole - 1), TUTTI_OK);
    assert_int_equal(gather_malformed(twice, sizeof twice - 1), TUTTI_ERR_PROTOCOL);
    assert_int_equal(
            gather_malformed(stranger, sizeof stranger - 1), TUTTI_ERR_PROTOCOL);
}

UNIT_TEST(test_a_leaf_survives_lack_of_memory_anywhere)
{
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    uint64_t n;

    for (n = 1; status == TUTTI_ERR_NO_MEMORY; n++) {
        struct ranks ranks;
        const uint8_t **blocks = NULL;
        size_t *lengths = NULL;

        ranks_open(&ranks, 2);
        send_result(&ranks, "zero", "one");
        send_text(&ranks, 0, 1, "early");
        mem_fail_at(n);
        status = transport_allgather(&ranks.ends[1], "one", 3, &blocks, &lengths);
        mem_fail_at(0);
        if (status == TUTTI_OK) {
            assert_memory_equal(blocks[0], "zero", 4);
            mem_free(blocks);
            assert_polled(&ranks, 1, "0:early;");
        } else {
            assert_null(blocks);
        }
        ranks_close(&ranks);
    }
    assert_int_equal(status, TUTTI_OK);
    assert_true(n > 5);
}

UNIT_TEST(test_a_root_without_memory_lets_nobody_wait)
{
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    uint64_t n;

    for (n = 1; status == TUTTI_ERR_NO_MEMORY; n++) {
        struct ranks ranks;
        struct inbox inbox = { .used = 0 };
        const uint8_t **blocks = NULL;
        size_t *lengths = NULL;

        ranks_open(&ranks, 2);
        send_text(&ranks, 1, 0, "one");
        mem_fail_at(n);
        status = transport_allgather(&ranks.ends[0], "zero", 4, &blocks, &lengths);
        mem_fail_at(0);
        assert_int_equal(transport_poll(&ranks.ends[1], inbox_keep, &inbox), TUTTI_OK);
        if (status == TUTTI_OK) {
            assert_memory_equal(blocks[1], "one", 3);
            mem_free(blocks);
        }
        ranks_close(&ranks);
    }
    assert_int_equal(status, TUTTI_OK);
    assert_true(n > 4);
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
    deliver(user, 0, "\0\4zero\1\3one", 11);
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
    const uint8_t **blocks;
    size_t *lengths;
    tutti_status status = transport_allgather(&end, "one", 3, &blocks, &lengths);

    if (status == TUTTI_OK) {
        mem_free(blocks);
    }
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
