/*
 * The board in shared memory: what members of a set show each other, when it is theirs, and
 * that messages of the ring arrive whole and in order, or not at all.
 *
 * Most tests run twice: with ranks that address all of each other's memory, and apart.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "ops/shm/segment.h"
#include "ops/shm/shm_board.h"
#include "test/unit/ops/fleet.h"
#include "test/unit/unit.h"

static const int world[] = { 0, 1, 2 };
/* Who reads the ring of member 0. */
static const int readers[] = { 1, 2 };

/* A set of all ranks of the fleet, as one of them sees it. */
static struct op_set set_of(uint32_t id, uint32_t index, int rank, int size)
{
    return (struct op_set){
        .id = id, .index = index, .rank = rank, .size = size, .world_ranks = world
    };
}

static void open_for(const struct board *board, const struct op_set *set)
{
    ASSERT_OK(board->open(board->state, set));
}

static void show(const struct board *board, const struct op_set *set, size_t index,
        uint64_t word)
{
    board->show(board->state, set, index, word);
}

/* A member shows a word, and nothing else. */
static void assert_shows(const struct board *board, const struct op_set *set,
        int member, size_t index, uint64_t word)
{
    uint64_t words[BOARD_WORDS];

    assert_true(board->shown(board->state, set, member, words, BOARD_WORDS));
    for (size_t i = 0; i < BOARD_WORDS; i++) {
        assert_int_equal(words[i], i == index ? word : 0);
    }
}

static void assert_is_not_open(
        const struct board *board, const struct op_set *set, int member)
{
    uint64_t words[BOARD_WORDS];

    assert_false(board->shown(board->state, set, member, words, BOARD_WORDS));
}

BOTH_TEST(test_members_see_each_others_words)
{
    const struct op_set mine = set_of(3, 9, 0, 2);
    const struct op_set theirs = set_of(3, 9, 1, 2);
    uint64_t words[2] = { 7, 7 };
    struct board board;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    assert_is_not_open(&board, &theirs, 0);
    open_for(&board, &mine);
    assert_shows(&board, &theirs, 0, 0, 0);
    show(&board, &mine, BOARD_WORDS - 1, UINT64_MAX);
    assert_shows(&board, &theirs, 0, BOARD_WORDS - 1, UINT64_MAX);
    assert_shows(&board, &mine, 0, BOARD_WORDS - 1, UINT64_MAX);
    assert_is_not_open(&board, &mine, 1);
    open_for(&board, &theirs);
    show(&board, &theirs, 0, 5);
    assert_shows(&board, &mine, 1, 0, 5);
    assert_true(board.shown(board.state, &mine, 1, words, 1));
    assert_true(words[0] == 5 && words[1] == 7); /* no more than was asked for */
    open_for(&board, &mine);
    assert_shows(&board, &theirs, 0, 0, 0);
    fleet_close(&fleet);
}

BOTH_TEST(test_a_row_is_of_one_set)
{
    const struct op_set former = set_of(5, 2, 0, 2);
    const struct op_set former_theirs = set_of(5, 2, 1, 2);
    const struct op_set later = set_of(6, 2, 0, 2);
    const struct op_set later_theirs = set_of(6, 2, 1, 2);
    struct board board;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    open_for(&board, &former);
    open_for(&board, &former_theirs);
    show(&board, &former, 1, 10);
    show(&board, &former_theirs, 1, 20);

    open_for(&board, &later);
    assert_is_not_open(&board, &former_theirs, 0);
    assert_is_not_open(&board, &later_theirs, 1);
    show(&board, &later, 1, 11);
    assert_is_not_open(&board, &former_theirs, 0);
    assert_shows(&board, &later_theirs, 0, 1, 11);

    /* The other has not come that far: what it shows is the former set's. */
    assert_is_not_open(&board, &later, 1);
    assert_shows(&board, &former, 1, 1, 20);
    fleet_close(&fleet);
}

BOTH_TEST(test_members_are_those_of_the_set)
{
    static const int ranks[] = { 2, 0 };
    const struct op_set first = { .id = 1, .rank = 0, .size = 2, .world_ranks = ranks };
    const struct op_set second = {
        .id = 1, .rank = 1, .size = 2, .world_ranks = ranks
    };
    struct board board;
    struct fleet fleet;

    fleet_open(&fleet, 3);
    board = shm_board(fleet.domain);
    open_for(&board, &first);
    open_for(&board, &second);
    show(&board, &first, 0, 200);
    show(&board, &second, 0, 100);
    assert_shows(&board, &second, 0, 0, 200);
    assert_shows(&board, &first, 1, 0, 100);
    fleet_close(&fleet);
}

BOTH_TEST(test_all_sets_there_can_be)
{
    struct board board;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    for (uint32_t i = 0; i < OP_SETS_MAX; i++) {
        const struct op_set set = set_of(i, (i * 5 + 3) % OP_SETS_MAX, 0, 2);

        open_for(&board, &set);
        show(&board, &set, i % BOARD_WORDS, i + 1);
    }
    for (uint32_t i = 0; i < OP_SETS_MAX; i++) {
        const struct op_set set = set_of(i, (i * 5 + 3) % OP_SETS_MAX, 1, 2);

        assert_shows(&board, &set, 0, i % BOARD_WORDS, i + 1);
    }
    fleet_close(&fleet);
}

/* ------------------------------------------------------------------- the ring */

/* The bytes of a message say its number and its set. */
static void fill(
        uint8_t *bytes, size_t len, const struct op_set *set, uint64_t sequence)
{
    memset(bytes, (int)(sequence * 7 + set->id), len);
}

static bool send(const struct board *board, const struct op_set *set, uint64_t sequence,
        size_t len)
{
    uint8_t bytes[2 * BOARD_MESSAGE_BYTES];

    fill(bytes, len, set, sequence);
    return board->write(
            board->state, set, readers, set->size - 1, sequence, bytes, len);
}

/* Reads message number `sequence` of member 0; it is whole. @return its length */
static size_t take(
        const struct board *board, const struct op_set *set, uint64_t sequence)
{
    uint8_t bytes[BOARD_MESSAGE_BYTES];
    uint8_t wanted[BOARD_MESSAGE_BYTES];
    const size_t len = board->read(board->state, set, 0, sequence, bytes);

    fill(wanted, len, set, sequence);
    assert_memory_equal(bytes, wanted, len);
    return len;
}

/* A fleet with a set of all its ranks. */
struct ring {
    struct fleet fleet;
    struct board board;
    struct op_set sets[3]; /* as each member sees it */
};

static void ring_open(struct ring *ring, int size)
{
    fleet_open(&ring->fleet, size);
    ring->board = shm_board(ring->fleet.domain);
    for (int rank = 0; rank < size; rank++) {
        ring->sets[rank] = set_of(4, 1, rank, size);
        open_for(&ring->board, &ring->sets[rank]);
    }
}

BOTH_TEST(test_messages_are_read_in_order_and_whole)
{
    struct ring ring;

    ring_open(&ring, 2);
    for (uint64_t i = 0; i < 3 * BOARD_MESSAGE_BYTES; i++) {
        const size_t len = 1 + i % BOARD_MESSAGE_BYTES;

        assert_int_equal(take(&ring.board, &ring.sets[1], i), 0);
        assert_true(send(&ring.board, &ring.sets[0], i, len));
        assert_int_equal(take(&ring.board, &ring.sets[1], i + 1), 0);
        assert_int_equal(take(&ring.board, &ring.sets[1], i), len);
    }
    fleet_close(&ring.fleet);
}

BOTH_TEST(test_what_is_too_long_is_not_taken)
{
    struct ring ring;

    ring_open(&ring, 2);
    assert_false(send(&ring.board, &ring.sets[0], 0, BOARD_MESSAGE_BYTES + 1));
    assert_int_equal(take(&ring.board, &ring.sets[1], 0), 0);
    assert_true(send(&ring.board, &ring.sets[0], 0, BOARD_MESSAGE_BYTES));
    fleet_close(&ring.fleet);
}

BOTH_TEST(test_a_ring_is_full_until_all_have_read)
{
    struct ring ring;

    ring_open(&ring, 3);
    for (uint64_t i = 0; i < SHM_BOARD_CELLS; i++) {
        assert_true(send(&ring.board, &ring.sets[0], i, 5));
    }
    assert_false(send(&ring.board, &ring.sets[0], SHM_BOARD_CELLS, 5));
    assert_int_equal(take(&ring.board, &ring.sets[1], 0), 5);
    assert_int_equal(take(&ring.board, &ring.sets[1], 1), 5);
    assert_false(send(&ring.board, &ring.sets[0], SHM_BOARD_CELLS, 5));
    assert_int_equal(take(&ring.board, &ring.sets[2], 0), 5);
    assert_true(send(&ring.board, &ring.sets[0], SHM_BOARD_CELLS, 6));
    assert_false(send(&ring.board, &ring.sets[0], SHM_BOARD_CELLS + 1, 5));
    for (uint64_t i = 1; i < SHM_BOARD_CELLS; i++) {
        assert_int_equal(take(&ring.board, &ring.sets[2], i), 5);
    }
    assert_int_equal(take(&ring.board, &ring.sets[2], SHM_BOARD_CELLS), 6);
    fleet_close(&ring.fleet);
}

/* Messages that the ring did not take reach their readers otherwise. Who asks for a later one has them. */
BOTH_TEST(test_a_ring_has_space_again_behind_messages_that_went_another_way)
{
    const uint64_t last = 5 * SHM_BOARD_CELLS;
    struct ring ring;

    ring_open(&ring, 3);
    assert_false(send(&ring.board, &ring.sets[0], last, 5));
    for (int reader = 1; reader < 3; reader++) {
        assert_false(send(&ring.board, &ring.sets[0], last, 5));
        assert_int_equal(take(&ring.board, &ring.sets[reader], last), 0);
    }
    assert_true(send(&ring.board, &ring.sets[0], last, 5));
    for (int reader = 1; reader < 3; reader++) {
        assert_int_equal(take(&ring.board, &ring.sets[reader], last), 5);
    }
    fleet_close(&ring.fleet);
}

BOTH_TEST(test_a_ring_is_of_one_set)
{
    const struct op_set later = set_of(5, 1, 0, 2);
    const struct op_set later_theirs = set_of(5, 1, 1, 2);
    struct ring ring;

    ring_open(&ring, 2);
    for (uint64_t i = 0; i < SHM_BOARD_CELLS; i++) {
        assert_true(send(&ring.board, &ring.sets[0], i, 5));
    }
    open_for(&ring.board, &later);
    assert_int_equal(take(&ring.board, &ring.sets[1], 0), 0);
    assert_true(send(&ring.board, &later, 0, 6));
    assert_int_equal(take(&ring.board, &ring.sets[1], 0), 0);
    /* What the other has read of the former set makes no space in this one. */
    assert_true(send(&ring.board, &later, 1, 6));
    assert_false(send(&ring.board, &later, SHM_BOARD_CELLS, 6));
    open_for(&ring.board, &later_theirs);
    assert_int_equal(take(&ring.board, &later_theirs, 0), 6);
    assert_int_equal(take(&ring.board, &later_theirs, 1), 6);
    assert_int_equal(take(&ring.board, &later_theirs, 2), 0);
    fleet_close(&ring.fleet);
}

/* ------------------------------------------------------------------ memory */

static long blocks_of(const struct fleet *fleet, int rank)
{
    struct stat facts;

    assert_int_equal(fstat(shm_domain_fd(fleet->domain, rank), &facts), 0);
    return (long)facts.st_blocks;
}

APART_TEST(test_only_opening_takes_memory)
{
    struct op_set set;
    uint8_t bytes[BOARD_MESSAGE_BYTES];
    struct board board;
    struct fleet fleet;
    long before;

    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    before = blocks_of(&fleet, 1);
    set = set_of(0, 0, 0, 2);
    open_for(&board, &set);
    for (uint32_t index = 0; index < OP_SETS_MAX; index++) {
        const struct op_set other = set_of(0, index, 0, 2);

        assert_is_not_open(&board, &other, 1);
    }
    assert_int_equal(board.read(board.state, &set, 1, 0, bytes), 0);
    assert_int_equal(blocks_of(&fleet, 1), before);
    set = set_of(0, 0, 1, 2);
    open_for(&board, &set);
    assert_int_equal(blocks_of(&fleet, 1), before + 4096 / 512);
    show(&board, &set, BOARD_WORDS - 1, 1);
    assert_true(send(&board, &set, SHM_BOARD_CELLS - 1, BOARD_MESSAGE_BYTES));
    assert_int_equal(blocks_of(&fleet, 1), before + 4096 / 512);
    fleet_close(&fleet);
}

APART_TEST(test_without_memory_nothing_changes)
{
    const struct op_set far = set_of(8, 800, 0, 2);
    const struct op_set near = set_of(1, 1, 0, 2);
    struct board board;
    struct fleet fleet;
    int fd;

    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    open_for(&board, &near);
    show(&board, &near, 2, 3);
    fd = fleet.domain->rank[0].reservation.fd;
    fleet.domain->rank[0].reservation.fd = -1; /* commits nothing */
    assert_int_equal(board.open(board.state, &far), TUTTI_ERR_NO_MEMORY);
    assert_non_null(strstr(tutti_last_error(), "process set 8 on rank 0"));
    fleet.domain->rank[0].reservation.fd = fd;
    assert_shows(&board, &near, 0, 2, 3);
    assert_is_not_open(&board, &far, 0);
    fleet_close(&fleet);
}

/* ---------------------------------------------------------------- who is seen */

APART_TEST(test_ranks_that_share_memory_are_seen)
{
    struct shm_domain *domain = NULL;
    struct board board = shm_board(NULL);

    assert_null(board.state);
    ASSERT_OK(shm_domain_open(&domain, 2, 0, 2, (size_t)512 << 20, RESERVATION_MEMFD));
    board = shm_board(domain);
    assert_true(board.sees(board.state, 0));
    assert_false(board.sees(board.state, 1));
    shm_domain_destroy(domain);
}

/* ------------------------------------------------------------------- threads */

enum {
    SETS = 500, /* one after the other, of one index */
    MESSAGES = 40 /* of each; more than the ring holds */
};

/* Rank 0 writes, rank 1 reads. */
struct speaker {
    pthread_t thread;
    const struct board *board;
    int rank;
    _Atomic int *rounds; /* how far both are */
    _Atomic bool
            *wrong; /* what was read was not what was written before it: both end */
};

/* Waits until the other has come as far. */
static void meet(const struct speaker *speaker, int round)
{
    /* Sequentially consistent, as all of the tests' counters. */
    atomic_store(&speaker->rounds[speaker->rank], round);
    while (atomic_load(&speaker->rounds[1 - speaker->rank]) < round &&
            !atomic_load(speaker->wrong)) {
        (void)sched_yield();
    }
}

/* Each word of a message, and the word that is shown behind it. */
static uint64_t mark_of(const struct op_set *set, uint64_t sequence)
{
    return (uint64_t)set->id << 32 | (sequence + 1);
}

static size_t length_of(uint64_t sequence)
{
    return 8 * (1 + sequence % (BOARD_MESSAGE_BYTES / 8));
}

static void write_one(
        const struct speaker *speaker, const struct op_set *set, uint64_t sequence)
{
    const struct board *board = speaker->board;
    uint64_t words[BOARD_MESSAGE_BYTES / 8];

    for (size_t i = 0; i < BOARD_MESSAGE_BYTES / 8; i++) {
        words[i] = mark_of(set, sequence);
    }
    while (!board->write(board->state, set, readers, 1, sequence, words,
                   length_of(sequence)) &&
            !atomic_load(speaker->wrong)) {
        (void)sched_yield();
    }
    show(board, set, 3, mark_of(set, sequence));
}

static void require(const struct speaker *speaker, bool condition)
{
    if (!condition) {
        atomic_store(speaker->wrong, true);
    }
}

static bool read_one(
        const struct speaker *speaker, const struct op_set *set, uint64_t sequence)
{
    uint64_t words[BOARD_MESSAGE_BYTES / 8];
    const size_t len =
            speaker->board->read(speaker->board->state, set, 0, sequence, words);

    require(speaker, len == 0 || len == length_of(sequence));
    for (size_t i = 0; i < len / 8; i++) {
        require(speaker, words[i] == mark_of(set, sequence));
    }
    return len != 0;
}

static void *write_all(void *user)
{
    const struct speaker *speaker = user;

    for (uint32_t id = 1; id <= SETS; id++) {
        const struct op_set set = set_of(id, 4, 0, 2);

        meet(speaker, (int)id);
        (void)speaker->board->open(speaker->board->state, &set);
        for (uint64_t i = 0; i < MESSAGES; i++) {
            write_one(speaker, &set, i);
        }
    }
    return NULL;
}

static void read_next(
        const struct speaker *speaker, const struct op_set *set, uint64_t sequence)
{
    uint64_t shown[4] = { 0 };
    bool is_there = false;

    while (!is_there && !atomic_load(speaker->wrong)) {
        const bool is_open =
                speaker->board->shown(speaker->board->state, set, 0, shown, 4);

        require(speaker, !is_open || shown[3] == 0 || shown[3] >> 32 == set->id);
        is_there = read_one(speaker, set, sequence);
        /* The word was behind the message. */
        require(speaker, !is_open || shown[3] < mark_of(set, sequence) || is_there);
        if (!is_there) {
            (void)sched_yield();
        }
    }
}

/* Looks at the last messages of the set again, until the other has left it. */
static void look_back(const struct speaker *speaker, const struct op_set *set)
{
    uint64_t words[4];
    bool is_there = true;

    while (is_there && !atomic_load(speaker->wrong)) {
        is_there = speaker->board->shown(speaker->board->state, set, 0, words, 4);
        require(speaker, !is_there || words[3] == 0 || words[3] >> 32 == set->id);
        for (uint64_t i = MESSAGES - SHM_BOARD_CELLS; i < MESSAGES; i++) {
            (void)read_one(speaker, set, i);
        }
    }
}

static void *read_all(void *user)
{
    const struct speaker *speaker = user;

    for (uint32_t id = 1; id <= SETS; id++) {
        const struct op_set set = set_of(id, 4, 1, 2);

        (void)speaker->board->open(speaker->board->state, &set);
        meet(speaker, (int)id);
        for (uint64_t i = 0; i < MESSAGES; i++) {
            read_next(speaker, &set, i);
        }
        if (id < SETS) {
            atomic_store(&speaker->rounds[1], (int)id + 1);
            look_back(speaker, &set);
        }
    }
    return NULL;
}

BOTH_TEST(test_what_is_read_was_written_before)
{
    static void *(*const bodies[])(void *user) = { write_all, read_all };
    struct speaker speakers[2];
    _Atomic int rounds[2];
    _Atomic bool wrong;
    struct board board;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    atomic_init(&rounds[0], 0);
    atomic_init(&rounds[1], 0);
    atomic_init(&wrong, false);
    for (int rank = 0; rank < 2; rank++) {
        speakers[rank] = (struct speaker){
            .board = &board, .rank = rank, .rounds = rounds, .wrong = &wrong
        };
        assert_int_equal(pthread_create(&speakers[rank].thread, NULL, bodies[rank],
                                 &speakers[rank]),
                0);
    }
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(pthread_join(speakers[rank].thread, NULL), 0);
    }
    assert_false(wrong);
    fleet_close(&fleet);
}

BOTH_TEST(test_waits_are_those_of_the_others)
{
    struct board board;
    struct fleet fleet;
    uint64_t before;

    fleet_open(&fleet, 3);
    board = shm_board(fleet.domain);
    before = board.waits(board.state, 1);
    board.wait(board.state, 1);
    assert_true(board.waits(board.state, 1) == before);
    assert_true(board.waits(board.state, 0) != before);
    board.wait(board.state, 0);
    board.wait(board.state, 2);
    assert_true(board.waits(board.state, 1) == before + 2);
    fleet_close(&fleet);
}
