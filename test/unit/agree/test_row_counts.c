/*
 * Row counts: how many there are, how they are compared, and how they travel.
 */
#include <string.h>

#include "agree/row_counts.h"
#include "base/mem.h"
#include "scene.h"
#include "test/unit/unit.h"

enum {
    RANKS = 3
};

static const int world_ranks[RANKS] = { 10, 11, 12 };

/* ------------------------------------------------------------------- alone */

static struct row_counts counts_of(int64_t *numbers, int count)
{
    return (struct row_counts){ .numbers = numbers, .count = count, .capacity = count };
}

static bool matches(
        int collective, int root, const struct row_counts *row_counts, char text[200])
{
    const struct exchange exchange = { .collective = collective,
        .name = "x",
        .root = root,
        .size = RANKS,
        .row_counts = row_counts,
        .world_ranks = world_ranks };

    return row_counts_match(&exchange, text, 200);
}

UNIT_TEST(test_what_one_sends_the_other_must_expect)
{
    int64_t zero[] = { 1, 2, 3, 1, 4, 7 };
    int64_t one[] = { 4, 5, 6, 2, 5, 8 };
    int64_t two[] = { 7, 8, 9, 3, 6, 9 };
    const struct row_counts row_counts[RANKS] = { counts_of(zero, 6), counts_of(one, 6),
        counts_of(two, 6) };
    char text[200];

    assert_true(matches(TUTTI_ALLTOALL, 0, row_counts, text));
    two[4] = 60;
    assert_false(matches(TUTTI_ALLTOALL, 0, row_counts, text));
    assert_string_equal(text,
            "alltoall \"x\": rank 11 sends 6 rows to rank 12, which expects 60; give "
            "the "
            "same number at both ranks");
}

UNIT_TEST(test_the_root_of_a_gather_may_expect_or_not)
{
    int64_t zero[] = { 1 };
    int64_t one[] = { 2, 1, 2, 3 };
    int64_t two[] = { 3 };
    struct row_counts row_counts[RANKS] = { counts_of(zero, 1), counts_of(one, 4),
        counts_of(two, 1) };
    char text[200];

    assert_true(matches(TUTTI_GATHER, 1, row_counts, text));
    two[0] = 4;
    assert_false(matches(TUTTI_GATHER, 1, row_counts, text));
    assert_non_null(strstr(text, "rank 12 sends 4 rows to rank 11, which expects 3;"));
    row_counts[1].count = 1;
    assert_true(matches(TUTTI_GATHER, 1, row_counts, text));
}

UNIT_TEST(test_a_member_of_a_scatter_may_take_what_comes)
{
    int64_t zero[] = { -1 };
    int64_t one[] = { 2 };
    int64_t two[] = { 3, 1, 2, 3 };
    const struct row_counts row_counts[RANKS] = { counts_of(zero, 1), counts_of(one, 1),
        counts_of(two, 4) };
    char text[200];

    assert_true(matches(TUTTI_SCATTER, 2, row_counts, text));
    one[0] = 0;
    assert_false(matches(TUTTI_SCATTER, 2, row_counts, text));
    assert_non_null(strstr(text, "rank 12 sends 2 rows to rank 11, which expects 0;"));
}

UNIT_TEST(test_the_number_of_row_counts_is_fixed)
{
    static const struct {
        int collective, member, count;
        enum meta_form form;
        bool valid;
    } cases[] = {
        { TUTTI_ALLREDUCE, 0, 0, META_EQUAL, true },
        { TUTTI_ALLREDUCE, 0, 1, META_EQUAL, false },
        { TUTTI_ALLTOALL, 0, 0, META_EQUAL, true },
        { TUTTI_ALLTOALL, 0, 6, META_EQUAL, false },
        { TUTTI_ALLTOALL, 0, 6, META_LISTED, true },
        { TUTTI_ALLTOALL, 0, 5, META_LISTED, false },
        { TUTTI_GATHER, 1, 1, META_EQUAL, true },
        { TUTTI_GATHER, 1, 4, META_EQUAL, true },
        { TUTTI_GATHER, 1, 3, META_EQUAL, false },
        { TUTTI_GATHER, 0, 4, META_EQUAL, false },
        { TUTTI_GATHER, 0, 0, META_EQUAL, false },
        { TUTTI_SCATTER, 1, 4, META_EQUAL, true },
        { TUTTI_SCATTER, 1, 1, META_EQUAL, false },
        { TUTTI_SCATTER, 2, 1, META_EQUAL, true },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct meta meta = {
            .root = 1, .form = cases[i].form, .row_counts = cases[i].count
        };

        assert_int_equal(row_counts_are_valid(
                                 cases[i].collective, &meta, cases[i].member, RANKS),
                cases[i].valid);
    }
    assert_false(row_counts_are_valid(
            TUTTI_GATHER, &(struct meta){ .root = RANKS, .row_counts = 1 }, 0, RANKS));
}

/* ------------------------------------------------------- between negotiators */

/* A gather to rank 1, which expects 4, 5 and 6 rows. */
static struct request gather(int rank, int64_t *numbers, int64_t rows)
{
    static const int64_t expected[] = { 4, 5, 6 };
    struct request request = scene_collective(TUTTI_GATHER, "x", 0);

    numbers[0] = rows;
    memcpy(numbers + 1, expected, sizeof expected);
    request.meta.root = 1;
    request.meta.row_counts = rank == 1 ? 1 + RANKS : 1;
    request.meta.dims = numbers;
    return request;
}

/* One round in which rank 2 sends some rows. */
static void play(struct scene *scene, int64_t rows)
{
    int64_t numbers[RANKS][1 + RANKS];

    scene_clear(scene);
    for (int r = 0; r < RANKS; r++) {
        const struct request request =
                gather(r, numbers[r], r == 2 ? rows : 4 + (int64_t)r);

        scene_play(scene, r, &request);
    }
    assert_int_equal(scene->end_count, RANKS);
}

UNIT_TEST(test_row_counts_in_the_steady_state_allocate_nothing)
{
    struct scene *s = scene_begin(RANKS, 10);
    uint64_t before;

    for (int i = 0; i < 4; i++) {
        play(s, 6);
    }
    before = mem_alloc_count();
    for (int i = 0; i < 5; i++) {
        play(s, 6);
    }
    assert_int_equal(mem_alloc_count(), before);
    scene_fini(s);
}

/* An alltoall of lists under some name; all send and expect one row. */
static void trade(struct scene *scene, const char *name)
{
    static const int64_t ones[2 * RANKS] = { 1, 1, 1, 1, 1, 1 };
    struct request request = scene_collective(TUTTI_ALLTOALL, name, 0);

    request.meta.form = META_LISTED;
    request.meta.row_counts = 2 * RANKS;
    request.meta.dims = ones;
    scene_clear(scene);
    scene_all_ready(scene, &request);
}

/* P * P numbers for each name that ever was would be all memory of a large job. */
UNIT_TEST(test_row_counts_of_a_name_without_a_number_end_with_its_round)
{
    struct scene *s = scene_begin(RANKS, 10);

    trade(s, "once");
    assert_int_equal(s->ranks[0].names.row_count_bytes, 0);
    trade(s, "again");
    trade(s, "again");
    assert_int_not_equal(s->ranks[0].names.row_count_bytes, 0);
    scene_fini(s);
}

UNIT_TEST(test_row_counts_beyond_a_limit_get_no_number)
{
    struct scene *s = scene_begin(RANKS, 10);
    size_t of_two;

    for (int i = 0; i < 3; i++) {
        trade(s, "a");
        trade(s, "b");
    }
    of_two = s->ranks[0].names.row_count_bytes;
    s->ranks[0].config.row_count_bytes_max = of_two;
    for (int i = 0; i < 3; i++) {
        trade(s, "c");
    }
    assert_int_equal(s->ranks[0].names.row_count_bytes, of_two);
    assert_int_equal(s->ranks[0].names.by_number.count, 2);
    scene_fini(s);
}

UNIT_TEST(test_a_wrong_number_of_row_counts_is_refused)
{
    int64_t numbers[1 + RANKS];
    struct request request = gather(2, numbers, 6);
    struct scene *s = scene_begin(RANKS, 10);

    request.meta.row_counts = 2;
    scene_say(s, 2, &request);
    assert_int_equal(scene_try_run(s), TUTTI_ERR_PROTOCOL);
    assert_non_null(
            strstr(tutti_last_error(), "rank 12 gives 2 row counts for gather \"x\""));
    scene_fini(s);
}
