/*
 * Row counts: how many there are, and how long they are kept.
 */
#include <string.h>

#include "agree/row_counts.h"
#include "base/mem.h"
#include "scene.h"
#include "test/unit/unit.h"

enum {
    RANKS = 3
};

/* ------------------------------------------------------------------- alone */

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
    struct scene *s = scene_begin(SCENE_MESSAGES, RANKS, 10);

    trade(s, "once");
    assert_int_equal(s->ranks[0].names.row_count_bytes, 0);
    trade(s, "again");
    trade(s, "again");
    assert_int_not_equal(s->ranks[0].names.row_count_bytes, 0);
    scene_fini(s);
}

UNIT_TEST(test_row_counts_beyond_a_limit_get_no_number)
{
    struct scene *s = scene_begin(SCENE_MESSAGES, RANKS, 10);
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
    assert_int_equal(s->ranks[0].names.numbered.count, 2);
    scene_fini(s);
}

UNIT_TEST(test_a_wrong_number_of_row_counts_is_refused)
{
    int64_t numbers[1 + RANKS];
    struct request request = gather(2, numbers, 6);
    struct scene *s = scene_begin(SCENE_MESSAGES, RANKS, 10);

    request.meta.row_counts = 2;
    scene_say(s, 2, &request);
    assert_int_equal(scene_try_run(s), TUTTI_ERR_PROTOCOL);
    assert_non_null(
            strstr(tutti_last_error(), "rank 12 gives 2 row counts for gather \"x\""));
    scene_fini(s);
}
