/*
 * The flags in shared memory: what members of a set show each other, when it is theirs, and
 * that what belongs together is read together.
 *
 * Most tests run twice: with ranks that address all of each other's memory, and apart.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "ops/shm/segment.h"
#include "ops/shm/shm_arrival_flags.h"
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

static void show(const struct arrival_flags *flags, const struct op_set *set,
        uint32_t cell, uint64_t word, uint64_t detail)
{
    flags->write(flags->state, set, cell, word, detail);
}

static void open_for(const struct arrival_flags *flags, const struct op_set *set)
{
    ASSERT_OK(flags->open(flags->state, set));
}

static void assert_shows(const struct arrival_flags *flags, const struct op_set *set,
        int member, uint32_t cell, uint64_t word, uint64_t detail)
{
    uint64_t found = 77;

    assert_int_equal(flags->read(flags->state, set, member, cell, &found), word);
    assert_int_equal(found, detail);
    assert_int_equal(flags->read(flags->state, set, member, cell, NULL), word);
}

BOTH_TEST(test_members_see_each_others_words)
{
    const struct op_set mine = pair_of(3, 9, 0);
    const struct op_set theirs = pair_of(3, 9, 1);
    struct arrival_flags flags;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    flags = shm_arrival_flags(fleet.domain);
    assert_shows(&flags, &theirs, 0, 5, 0, 0);
    open_for(&flags, &mine);
    assert_shows(&flags, &theirs, 0, 5, 0, 0);
    show(&flags, &mine, 5, 12, 34);
    assert_shows(&flags, &theirs, 0, 5, 12, 34);
    assert_shows(&flags, &mine, 0, 5, 12, 34);
    assert_shows(&flags, &mine, 1, 5, 0, 0);
    open_for(&flags, &theirs);
    assert_shows(&flags, &mine, 1, 5, 0, 0);
    show(&flags, &theirs, 5, ARRIVAL_WORD_MAX, UINT64_MAX);
    show(&flags, &mine, 5, 13, 0);
    assert_shows(&flags, &mine, 1, 5, ARRIVAL_WORD_MAX, UINT64_MAX);
    assert_shows(&flags, &theirs, 0, 5, 13, 0);
    open_for(&flags, &mine);
    assert_shows(&flags, &theirs, 0, 5, 0, 0);
    fleet_close(&fleet);
}

BOTH_TEST(test_each_cell_is_by_itself)
{
    const struct op_set mine = pair_of(0, 0, 1);
    const struct op_set theirs = pair_of(0, 0, 0);
    struct arrival_flags flags;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    flags = shm_arrival_flags(fleet.domain);
    open_for(&flags, &mine);
    for (uint32_t lane = 0; lane < OP_LANES; lane++) {
        for (uint64_t epoch = 6; epoch < 8; epoch++) {
            show(&flags, &mine, 2 * lane + epoch % 2, lane + 100 * epoch, epoch);
        }
    }
    for (uint32_t cell = 0; cell < ARRIVAL_CELLS; cell++) {
        const uint64_t epoch = 6 + cell % 2;

        assert_shows(&flags, &theirs, 1, cell, cell / 2 + 100 * epoch, epoch);
    }
    fleet_close(&fleet);
}

BOTH_TEST(test_words_belong_to_one_set)
{
    const struct op_set former = pair_of(5, 2, 0);
    const struct op_set former_theirs = pair_of(5, 2, 1);
    const struct op_set later = pair_of(6, 2, 0);
    const struct op_set later_theirs = pair_of(6, 2, 1);
    struct arrival_flags flags;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    flags = shm_arrival_flags(fleet.domain);
    open_for(&flags, &former);
    open_for(&flags, &former_theirs);
    show(&flags, &former, 1, 10, 1);
    show(&flags, &former_theirs, 1, 20, 2);

    open_for(&flags, &later);
    assert_shows(&flags, &former_theirs, 0, 1, 0, 0);
    assert_shows(&flags, &later_theirs, 0, 1, 0, 0);
    show(&flags, &later, 1, 11, 3);
    assert_shows(&flags, &former_theirs, 0, 1, 0, 0);
    assert_shows(&flags, &later_theirs, 0, 1, 11, 3);

    /* The other has not come that far: what it shows is the former set's. */
    assert_shows(&flags, &later, 1, 1, 0, 0);
    assert_shows(&flags, &former, 1, 1, 20, 2);
    fleet_close(&fleet);
}

BOTH_TEST(test_members_are_those_of_the_set)
{
    static const int ranks[] = { 2, 0 };
    const struct op_set first = { .id = 1, .rank = 0, .size = 2, .world_ranks = ranks };
    const struct op_set second = {
        .id = 1, .rank = 1, .size = 2, .world_ranks = ranks
    };
    struct arrival_flags flags;
    struct fleet fleet;

    fleet_open(&fleet, 3);
    flags = shm_arrival_flags(fleet.domain);
    assert_true(arrival_flags_cover(&flags, &first));
    open_for(&flags, &first);
    open_for(&flags, &second);
    show(&flags, &first, 0, 200, 0);
    show(&flags, &second, 0, 100, 0);
    assert_shows(&flags, &second, 0, 0, 200, 0);
    assert_shows(&flags, &first, 1, 0, 100, 0);
    fleet_close(&fleet);
}

BOTH_TEST(test_all_sets_there_can_be)
{
    struct arrival_flags flags;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    flags = shm_arrival_flags(fleet.domain);
    for (uint32_t i = 0; i < OP_SETS_MAX; i++) {
        const uint32_t index = (i * 5 + 3) % OP_SETS_MAX;
        const struct op_set set = pair_of(i, index, 0);

        assert_true(arrival_flags_cover(&flags, &set));
        open_for(&flags, &set);
        show(&flags, &set, i % ARRIVAL_CELLS, i + 1, index);
    }
    for (uint32_t i = 0; i < OP_SETS_MAX; i++) {
        const uint32_t index = (i * 5 + 3) % OP_SETS_MAX;
        const struct op_set set = pair_of(i, index, 1);

        for (uint32_t cell = 0; cell < ARRIVAL_CELLS; cell++) {
            const bool is_it = cell == i % ARRIVAL_CELLS;

            assert_shows(&flags, &set, 0, cell, is_it ? i + 1 : 0, is_it ? index : 0);
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

APART_TEST(test_only_opening_takes_memory)
{
    struct op_set set = pair_of(0, 0, 0);
    struct arrival_flags flags;
    struct fleet fleet;
    long before;

    fleet_open(&fleet, 2);
    flags = shm_arrival_flags(fleet.domain);
    before = blocks_of(&fleet, 1);
    for (uint32_t index = 0; index < OP_SETS_MAX; index++) {
        set = pair_of(0, index, 0);
        assert_shows(&flags, &set, 1, 0, 0, 0);
    }
    assert_int_equal(blocks_of(&fleet, 1), before);
    set = pair_of(0, 0, 1);
    open_for(&flags, &set);
    assert_int_equal(blocks_of(&fleet, 1), before + 4096 / 512);
    show(&flags, &set, ARRIVAL_CELLS - 1, 1, 1);
    assert_int_equal(blocks_of(&fleet, 1), before + 4096 / 512);
    fleet_close(&fleet);
}

APART_TEST(test_without_memory_nothing_changes)
{
    const struct op_set far = pair_of(8, 800, 0);
    const struct op_set near = pair_of(1, 1, 0);
    struct arrival_flags flags;
    struct fleet fleet;
    int fd;

    fleet_open(&fleet, 2);
    flags = shm_arrival_flags(fleet.domain);
    open_for(&flags, &near);
    show(&flags, &near, 2, 3, 4);
    fd = fleet.domain->rank[0].reservation.fd;
    fleet.domain->rank[0].reservation.fd = -1; /* commits nothing */
    assert_int_equal(flags.open(flags.state, &far), TUTTI_ERR_NO_MEMORY);
    assert_non_null(strstr(tutti_last_error(), "process set 8 on rank 0"));
    fleet.domain->rank[0].reservation.fd = fd;
    assert_shows(&flags, &near, 0, 2, 3, 4);
    assert_shows(&flags, &far, 0, 2, 0, 0);
    fleet_close(&fleet);
}

/* ---------------------------------------------------------------- who is seen */

APART_TEST(test_it_covers_ranks_that_share)
{
    const struct op_set two = pair_of(0, 0, 0);
    const struct op_set alone = {
        .id = 1, .index = 1, .rank = 0, .size = 1, .world_ranks = both
    };
    struct shm_domain *domain = NULL;
    struct arrival_flags none = shm_arrival_flags(NULL);
    struct arrival_flags flags;

    assert_false(arrival_flags_cover(&none, &alone));
    ASSERT_OK(shm_domain_open(&domain, 2, 0, 2, (size_t)512 << 20, RESERVATION_MEMFD));
    flags = shm_arrival_flags(domain);
    assert_true(arrival_flags_cover(&flags, &alone));
    assert_false(arrival_flags_cover(&flags, &two));
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
    const struct arrival_flags *flags;
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
    const struct arrival_flags *flags = speaker->flags;
    const uint64_t before = speaker->seen;
    uint64_t detail = 0;
    uint64_t word = flags->read(flags->state, set, 1 - speaker->rank, 3, &detail);

    speaker->wrong |= word < speaker->seen;
    speaker->wrong |= word != 0 && detail != detail_of(set, word);
    speaker->seen = word;
    speaker->changes += word != before;
    word = flags->read(flags->state, &former, 1 - speaker->rank, 3, &detail);
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
    const struct arrival_flags *flags = speaker->flags;

    for (uint32_t id = 1; id <= SETS; id++) {
        const struct op_set set = pair_of(id, 4, speaker->rank);

        meet(speaker, (int)id);
        speaker->wrong |= flags->open(flags->state, &set) != TUTTI_OK;
        speaker->seen = 0;
        for (uint64_t word = 1; word <= WORDS; word++) {
            flags->write(flags->state, &set, 3, word, detail_of(&set, word));
            look(speaker, &set);
        }
    }
    return NULL;
}

/* Runs two speakers, as threads. */
static void run_speakers(struct speaker *speakers, void *(*body)(void *user))
{
    _Atomic int rounds[2];
    struct arrival_flags flags;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    flags = shm_arrival_flags(fleet.domain);
    for (int rank = 0; rank < 2; rank++) {
        atomic_init(&rounds[rank], 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        speakers[rank] =
                (struct speaker){ .flags = &flags, .rank = rank, .rounds = rounds };
        assert_int_equal(
                pthread_create(&speakers[rank].thread, NULL, body, &speakers[rank]), 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(pthread_join(speakers[rank].thread, NULL), 0);
    }
    fleet_close(&fleet);
}

BOTH_TEST(test_words_are_read_with_their_details)
{
    struct speaker speakers[2];

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
    const struct arrival_flags *flags = speaker->flags;
    const struct op_set set = pair_of(1, 0, speaker->rank);
    const int other = 1 - speaker->rank;

    (void)flags->open(flags->state, &set);
    for (int round = 1; round <= ROUNDS; round++) {
        meet(speaker, 2 * round);
        flags->write(flags->state, &set, 0, (uint64_t)round, 0);
        seen[speaker->rank][round] = flags->read(flags->state, &set, other, 0, NULL);
        meet(speaker, 2 * round + 1);
        speaker->both_blind +=
                seen[0][round] < (uint64_t)round && seen[1][round] < (uint64_t)round;
    }
    return NULL;
}

BOTH_TEST(test_of_two_that_write_and_look_one_sees_the_other)
{
    struct speaker speakers[2];

    run_speakers(speakers, write_and_look);
    assert_int_equal(speakers[0].both_blind, 0);
    assert_int_equal(speakers[1].both_blind, 0);
}

BOTH_TEST(test_waits_are_those_of_the_others)
{
    struct arrival_flags flags;
    struct fleet fleet;
    uint64_t before;

    fleet_open(&fleet, 3);
    flags = shm_arrival_flags(fleet.domain);
    before = flags.waits(flags.state, 1);
    flags.wait(flags.state, 1);
    assert_true(flags.waits(flags.state, 1) == before);
    assert_true(flags.waits(flags.state, 0) != before);
    flags.wait(flags.state, 0);
    flags.wait(flags.state, 2);
    assert_true(flags.waits(flags.state, 1) == before + 2);
    fleet_close(&fleet);
}
