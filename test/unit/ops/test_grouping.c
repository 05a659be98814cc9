/*
 * Groupings of process sets.
 */
#include "ops/hier/grouping.h"
#include "test/unit/unit.h"

enum {
    RANKS_MAX = 8
};

/** A set, its world's groups, and what is to be found. */
struct row {
    const char *group_of; /* a digit for each world rank */
    const char *world; /* a digit for each member */
    int rank;
    int count, smallest, largest, mine, local;
    const char *members; /* group by group */
    const char *first;
};

static int digits(const char *text, int *numbers)
{
    int count = 0;

    while (text[count] != '\0') {
        numbers[count] = text[count] - '0';
        count++;
    }
    return count;
}

static void check_row(const struct row *row)
{
    int group_of[RANKS_MAX], world[RANKS_MAX], expected[RANKS_MAX + 1];
    int scratch[RANKS_MAX];
    int memory[3 * RANKS_MAX + 1];
    const struct op_set set = {
        .rank = row->rank, .size = digits(row->world, world), .world_ranks = world
    };
    struct grouping grouping;

    (void)digits(row->group_of, group_of);
    for (int i = 0; i < RANKS_MAX; i++) {
        scratch[i] = -1;
    }
    grouping_make(&grouping, &set, group_of, scratch, memory);
    assert_int_equal(grouping.count, row->count);
    assert_int_equal(grouping.smallest, row->smallest);
    assert_int_equal(grouping.largest, row->largest);
    assert_int_equal(grouping.mine, row->mine);
    assert_int_equal(grouping.local, row->local);
    (void)digits(row->members, expected);
    assert_memory_equal(
            grouping.members, expected, (size_t)set.size * sizeof *expected);
    (void)digits(row->first, expected);
    assert_memory_equal(
            grouping.first, expected, (size_t)(row->count + 1) * sizeof *expected);
    for (int m = 0; m < set.size; m++) {
        const int local = grouping_local(&grouping, m);

        assert_int_equal(grouping_member(&grouping, grouping.number[m], local), m);
    }
    for (int i = 0; i < RANKS_MAX; i++) {
        assert_int_equal(scratch[i], -1);
    }
}

UNIT_TEST(test_groups_are_numbered_by_their_lowest_member)
{
    static const struct row rows[] = {
        { "00", "01", 1, 1, 2, 2, 0, 1, "01", "02" },
        { "0011", "0123", 2, 2, 2, 2, 1, 0, "0123", "024" },
        { "0101", "0123", 3, 2, 2, 2, 1, 1, "0213", "024" },
        /* the set's own order, and not the world's groups' numbers */
        { "0123", "3120", 0, 4, 1, 1, 0, 0, "0123", "01234" },
        { "2221011", "65430", 3, 3, 1, 3, 0, 2, "01324", "0345" },
        { "0111220", "0123456", 6, 3, 2, 3, 0, 1, "0612345", "0257" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_row(&rows[i]);
    }
}
