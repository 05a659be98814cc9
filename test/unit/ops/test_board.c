/*
 * The board in shared memory: what members of a set show each other, when it is theirs, and
 * that what belongs together is read together.
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

static const int both[] = { 0, 1 };

/* A set of ranks 0 and 1, as one of them sees it. */
static struct op_set pair_of(uint32_t id, uint32_t index, int rank)
{
    return (struct op_set){
        .id = id, .index = index, .rank = rank, .size = 2, .world_ranks = both
    };
}

static void show(const struct board *board, const struct op_set *set, uint32_t cell,
        uint64_t word, uint64_t detail)
{
    board->write(board->state, set, cell, word, detail);
}

static void open_for(const struct board *board, const struct op_set *set)
{
    assert_int_equal(board->open(board->state, set), TUTTI_OK);
}

static void assert_shows(const struct board *board, const struct op_set *set,
        int member, uint32_t cell, uint64_t word, uint64_t detail)
{
    uint64_t found = 77;

    assert_int_equal(board->read(board->state, set, member, cell, &found), word);
    assert_int_equal(found, detail);
    assert_int_equal(board->read(board->state, set, member, cell, NULL), word);
}

static void test_members_see_each_others_words(void **state)
{
    const struct op_set mine = pair_of(3, 9, 0);
    const struct op_set theirs = pair_of(3, 9, 1);
    struct board board;
    struct fleet fleet;

    (void)state;
    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    assert_shows(&board, &theirs, 0, 5, 0, 0);
    open_for(&board, &mine);
    assert_shows(&board, &theirs, 0, 5, 0, 0);
    show(&board, &mine, 5, 12, 34);
    assert_shows(&board, &theirs, 0, 5, 12, 34);
    assert_shows(&board, &mine, 0, 5, 12, 34);
    assert_shows(&board, &mine, 1, 5, 0, 0);
    open_for(&board, &theirs);
    assert_shows(&board, &mine, 1, 5, 0, 0);
    show(&board, &theirs, 5, BOARD_WORD_MAX, UINT64_MAX);
    show(&board, &mine, 5, 13, 0);
    assert_shows(&board, &mine, 1, 5, BOARD_WORD_MAX, UINT64_MAX);
    assert_shows(&board, &theirs, 0, 5, 13, 0);
    open_for(&board, &mine);
    assert_shows(&board, &theirs, 0, 5, 0, 0);
    fleet_close(&fleet);
}

static void test_each_cell_is_by_itself(void **state)
{
    const struct op_set mine = pair_of(0, 0, 1);
    const struct op_set theirs = pair_of(0, 0, 0);
    struct board board;
    struct fleet fleet;

    (void)state;
    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    open_for(&board, &mine);
    for (uint32_t lane = 0; lane < OP_LANES; lane++) {
        for (uint64_t epoch = 6; epoch < 8; epoch++) {
            show(&board, &mine, 2 * lane + epoch % 2, lane + 100 * epoch, epoch);
        }
    }
    for (uint32_t cell = 0; cell < BOARD_CELLS; cell++) {
        const uint64_t epoch = 6 + cell % 2;

        assert_shows(&board, &theirs, 1, cell, cell / 2 + 100 * epoch, epoch);
    }
    fleet_close(&fleet);
}

static void test_words_belong_to_one_set(void **state)
{
    const struct op_set former = pair_of(5, 2, 0);
    const struct op_set former_theirs = pair_of(5, 2, 1);
    const struct op_set later = pair_of(6, 2, 0);
    const struct op_set later_theirs = pair_of(6, 2, 1);
    struct board board;
    struct fleet fleet;

    (void)state;
    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    open_for(&board, &former);
    open_for(&board, &former_theirs);
    show(&board, &former, 1, 10, 1);
    show(&board, &former_theirs, 1, 20, 2);

    open_for(&board, &later);
    assert_shows(&board, &former_theirs, 0, 1, 0, 0);
    assert_shows(&board, &later_theirs, 0, 1, 0, 0);
    show(&board, &later, 1, 11, 3);
    assert_shows(&board, &former_theirs, 0, 1, 0, 0);
    assert_shows(&board, &later_theirs, 0, 1, 11, 3);

    /* The other has not come that far: what it shows is the former set's. */
    assert_shows(&board, &later, 1, 1, 0, 0);
    assert_shows(&board, &former, 1, 1, 20, 2);
    fleet_close(&fleet);
}

static void test_members_are_those_of_the_set(void **state)
{
    static const int ranks[] = { 2, 0 };
    const struct op_set first = { .id = 1, .rank = 0, .size = 2, .world_ranks = ranks };
    const struct op_set second = {
        .id = 1, .rank = 1, .size = 2, .world_ranks = ranks
    };
    struct board board;
    struct fleet fleet;

    (void)state;
    fleet_open(&fleet, 3);
    board = shm_board(fleet.domain);
    assert_true(board_covers(&board, &first));
    open_for(&board, &first);
    open_for(&board, &second);
    show(&board, &first, 0, 200, 0);
    show(&board, &second, 0, 100, 0);
    assert_shows(&board, &second, 0, 0, 200, 0);
    assert_shows(&board, &first, 1, 0, 100, 0);
    fleet_close(&fleet);
}

static void test_all_sets_there_can_be(void **state)
{
    struct board board;
    struct fleet fleet;

    (void)state;
    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    for (uint32_t i = 0; i < OP_SETS_MAX; i++) {
        const uint32_t index = (i * 5 + 3) % OP_SETS_MAX;
        const struct op_set set = pair_of(i, index, 0);

        assert_true(board_covers(&board, &set));
        open_for(&board, &set);
        show(&board, &set, i % BOARD_CELLS, i + 1, index);
    }
    for (uint32_t i = 0; i < OP_SETS_MAX; i++) {
        const uint32_t index = (i * 5 + 3) % OP_SETS_MAX;
        const struct op_set set = pair_of(i, index, 1);

        for (uint32_t cell = 0; cell < BOARD_CELLS; cell++) {
            const bool is_it = cell == i % BOARD_CELLS;

            assert_shows(&board, &set, 0, cell, is_it ? i + 1 : 0, is_it ? index : 0);
        }
    }
    fleet_close(&fleet);
}

/* ------------------------------------------------------------------ memory */

static long blocks_of(const struct fleet *fleet, int rank)
{
    struct stat facts;

    assert_int_equal(fstat(shm_domain_fd(fleet->domain, rank), &facts), 0);
    return (long)facts.st_blocks;
}

static void test_only_opening_takes_memory(void **state)
{
    struct op_set set = pair_of(0, 0, 0);
    struct board board;
    struct fleet fleet;
    long before;

    (void)state;
    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    before = blocks_of(&fleet, 1);
    for (uint32_t index = 0; index < OP_SETS_MAX; index++) {
        set = pair_of(0, index, 0);
        assert_shows(&board, &set, 1, 0, 0, 0);
    }
    assert_int_equal(blocks_of(&fleet, 1), before);
    set = pair_of(0, 0, 1);
    open_for(&board, &set);
    assert_int_equal(blocks_of(&fleet, 1), before + 4096 / 512);
    show(&board, &set, BOARD_CELLS - 1, 1, 1);
    assert_int_equal(blocks_of(&fleet, 1), before + 4096 / 512);
    fleet_close(&fleet);
}

static void test_without_memory_nothing_changes(void **state)
{
    const struct op_set far = pair_of(8, 800, 0);
    const struct op_set near = pair_of(1, 1, 0);
    struct board board;
    struct fleet fleet;
    int fd;

    (void)state;
    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    open_for(&board, &near);
    show(&board, &near, 2, 3, 4);
    fd = fleet.domain->rank[0].reservation.fd;
    fleet.domain->rank[0].reservation.fd = -1; /* commits nothing */
    assert_int_equal(board.open(board.state, &far), TUTTI_ERR_NO_MEMORY);
    assert_non_null(strstr(tutti_last_error(), "process set 8 on rank 0"));
    fleet.domain->rank[0].reservation.fd = fd;
    assert_shows(&board, &near, 0, 2, 3, 4);
    assert_shows(&board, &far, 0, 2, 0, 0);
    fleet_close(&fleet);
}

/* ---------------------------------------------------------------- who is seen */

static void test_it_covers_ranks_that_share(void **state)
{
    const struct op_set two = pair_of(0, 0, 0);
    const struct op_set alone = {
        .id = 1, .index = 1, .rank = 0, .size = 1, .world_ranks = both
    };
    struct shm_domain *domain = NULL;
    struct board none = shm_board(NULL);
    struct board board;

    (void)state;
    assert_false(board_covers(&none, &alone));
    assert_int_equal(
            shm_domain_open(&domain, 2, 0, (size_t)512 << 20, RESERVATION_MEMFD),
            TUTTI_OK);
    board = shm_board(domain);
    assert_true(board_covers(&board, &alone));
    assert_false(board_covers(&board, &two));
    shm_domain_destroy(domain);
}

/* ------------------------------------------------------------------- threads */

enum {
    ROUNDS = 3000, /* of writing and looking */
    SETS = 3000, /* one after the other, of one index */
    WORDS = 30 /* of each */
};

/* A rank that shows words and looks at those of the other. */
struct speaker {
    pthread_t thread;
    const struct board *board;
    int rank;
    _Atomic int *rounds; /* how far both are */
    uint64_t seen; /* the other's newest word of the set */
    int changes; /* how often that was another one */
    bool wrong; /* a detail was another word's, or a word came back */
    int both_blind; /* rounds in which this rank did not see the other's word */
};

static uint64_t detail_of(const struct op_set *set, uint64_t word)
{
    return word * 1000 + set->id;
}

/* Looks at the other's word, and at that of the set that was there before. */
static void look(struct speaker *speaker, const struct op_set *set)
{
    const struct op_set former = pair_of(set->id - 1, set->index, set->rank);
    const struct board *board = speaker->board;
    const uint64_t before = speaker->seen;
    uint64_t detail = 0;
    uint64_t word = board->read(board->state, set, 1 - speaker->rank, 3, &detail);

    speaker->wrong |= word < speaker->seen;
    speaker->wrong |= word != 0 && detail != detail_of(set, word);
    speaker->seen = word;
    speaker->changes += word != before;
    word = board->read(board->state, &former, 1 - speaker->rank, 3, &detail);
    speaker->wrong |= word != 0 && detail != detail_of(&former, word);
}

/* Waits until the other has come as far. */
static void meet(const struct speaker *speaker, int round)
{
    /* Sequentially consistent, as all of the tests' counters. */
    atomic_store(&speaker->rounds[speaker->rank], round);
    while (atomic_load(&speaker->rounds[1 - speaker->rank]) < round) {
        (void)sched_yield();
    }
}

static void *speak(void *user)
{
    struct speaker *speaker = user;
    const struct board *board = speaker->board;

    for (uint32_t id = 1; id <= SETS; id++) {
        const struct op_set set = pair_of(id, 4, speaker->rank);

        meet(speaker, (int)id);
        speaker->wrong |= board->open(board->state, &set) != TUTTI_OK;
        speaker->seen = 0;
        for (uint64_t word = 1; word <= WORDS; word++) {
            board->write(board->state, &set, 3, word, detail_of(&set, word));
            look(speaker, &set);
        }
    }
    return NULL;
}

/* Runs two speakers, as threads. */
static void run_speakers(struct speaker *speakers, void *(*body)(void *user))
{
    _Atomic int rounds[2];
    struct board board;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    board = shm_board(fleet.domain);
    for (int rank = 0; rank < 2; rank++) {
        atomic_init(&rounds[rank], 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        speakers[rank] =
                (struct speaker){ .board = &board, .rank = rank, .rounds = rounds };
        assert_int_equal(
                pthread_create(&speakers[rank].thread, NULL, body, &speakers[rank]), 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(pthread_join(speakers[rank].thread, NULL), 0);
    }
    fleet_close(&fleet);
}

static void test_words_are_read_with_their_details(void **state)
{
    struct speaker speakers[2];

    (void)state;
    run_speakers(speakers, speak);
    assert_false(speakers[0].wrong);
    assert_false(speakers[1].wrong);
    assert_true(speakers[0].changes + speakers[1].changes >= SETS);
}

/* Both write and then look, at once, in each round. */
static void *write_and_look(void *user)
{
    static uint64_t seen[2][ROUNDS + 1]; /* by rank and round */
    struct speaker *speaker = user;
    const struct board *board = speaker->board;
    const struct op_set set = pair_of(1, 0, speaker->rank);
    const int other = 1 - speaker->rank;

    (void)board->open(board->state, &set);
    for (int round = 1; round <= ROUNDS; round++) {
        meet(speaker, 2 * round);
        board->write(board->state, &set, 0, (uint64_t)round, 0);
        seen[speaker->rank][round] = board->read(board->state, &set, other, 0, NULL);
        meet(speaker, 2 * round + 1);
        speaker->both_blind +=
                seen[0][round] < (uint64_t)round && seen[1][round] < (uint64_t)round;
    }
    return NULL;
}

static void test_of_two_that_write_and_look_one_sees_the_other(void **state)
{
    struct speaker speakers[2];

    (void)state;
    run_speakers(speakers, write_and_look);
    assert_int_equal(speakers[0].both_blind, 0);
    assert_int_equal(speakers[1].both_blind, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_see_each_others_words),
        cmocka_unit_test(test_each_cell_is_by_itself),
        cmocka_unit_test(test_words_belong_to_one_set),
        cmocka_unit_test(test_members_are_those_of_the_set),
        cmocka_unit_test(test_all_sets_there_can_be),
        cmocka_unit_test(test_words_are_read_with_their_details),
        cmocka_unit_test(test_of_two_that_write_and_look_one_sees_the_other),
    };
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(test_only_opening_takes_memory),
        cmocka_unit_test(test_without_memory_nothing_changes),
        cmocka_unit_test(test_it_covers_ranks_that_share),
    };
    int failed = cmocka_run_group_tests_name(
            "one process", tests, fleet_addresses_everything, NULL);

    failed += cmocka_run_group_tests_name("apart", tests, fleet_is_apart, NULL);
    failed += cmocka_run_group_tests_name("memory", apart, fleet_is_apart, NULL);
    return failed;
}
