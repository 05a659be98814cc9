/*
 * Groupings of process sets.
 */
#include <stdio.h>
#include <string.h>

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

/* ------------------------------------------------------- the order of sums */

enum {
    TEXT_MAX = 64
};

/**
 * Joins texts by the tree of docs/numerics.md: neighbours of a level pair by pair, a last
 * one alone; which is a split at the largest power of two.
 */
static void tree_text(char (*leaves)[TEXT_MAX], int count, char *text)
{
    for (int length = 1; length < count; length *= 2) {
        for (int i = 0; i + length < count; i += 2 * length) {
            char sum[2 * TEXT_MAX];

            (void)snprintf(sum, sizeof sum, "(%s%s)", leaves[i], leaves[i + length]);
            memcpy(leaves[i], sum, TEXT_MAX);
        }
    }
    memcpy(text, leaves[0], TEXT_MAX);
}

static void text_of_members(const int *members, int count, char *text)
{
    char leaves[RANKS_MAX][TEXT_MAX];

    for (int i = 0; i < count; i++) {
        (void)snprintf(leaves[i], TEXT_MAX, "%d", members[i]);
    }
    tree_text(leaves, count, text);
}

/** True when both orders of a sum are one. */
static bool trees_are_equal(const struct op_set *set, const int *group_of)
{
    int scratch[RANKS_MAX], memory[3 * RANKS_MAX + 1], order[RANKS_MAX];
    char one[TEXT_MAX], two[TEXT_MAX], sums[RANKS_MAX][TEXT_MAX];
    struct grouping grouping;

    for (int i = 0; i < RANKS_MAX; i++) {
        scratch[i] = -1;
        order[i] = i;
    }
    grouping_make(&grouping, set, group_of, scratch, memory);
    text_of_members(order, set->size, one);
    for (int g = 0; g < grouping.count; g++) {
        text_of_members(&grouping.members[grouping.first[g]],
                grouping_size(&grouping, g), sums[g]);
    }
    tree_text(sums, grouping.count, two);
    return strcmp(one, two) == 0;
}

/* All groupings of up to 7 ranks in up to 4 groups: what is promised is so. */
UNIT_TEST(test_sums_that_follow_ranks_have_one_tree)
{
    static const int world[RANKS_MAX] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    int promised = 0;

    for (int size = 1; size < RANKS_MAX; size++) {
        for (int code = 0; code < 1 << 2 * size; code++) {
            const struct op_set set = { .size = size, .world_ranks = world };
            int group_of[RANKS_MAX];

            for (int i = 0; i < size; i++) {
                group_of[i] = code >> 2 * i & 3;
            }
            if (grouping_follows_ranks(&set, group_of)) {
                assert_true(trees_are_equal(&set, group_of));
                promised++;
            }
        }
    }
    /* 1 to 7 in one group, 2 to 4 in ones, 3 to 7 in twos, 5 to 7 in fours; named at will */
    assert_int_equal(
            promised, 7 * 4 + (12 + 24 + 24) + (12 + 12 + 24 + 24 + 24) + 3 * 12);
}

UNIT_TEST(test_blocks_of_ranks_are_followed)
{
    static const struct {
        const char *group_of, *world;
        bool follow;
    } rows[] = {
        { "0011", "0123", true },
        { "00112", "01234", true },
        { "1100", "0123", true },
        { "000", "012", true },
        { "0123", "0123", true },
        { "0101", "0123", false },
        { "0120120", "0123456", false },
        { "0001", "0123", false },
        { "0111", "0123", false },
        { "001100", "012345", false },
        { "00111", "01234", false },
        { "0010", "0123", false },
        /* the order of the set, and not that of the world */
        { "0101", "0213", true },
        { "0011", "0213", false },
        { "00011", "0134", true },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int group_of[RANKS_MAX], world[RANKS_MAX];
        const struct op_set set = { .size = digits(rows[i].world, world),
            .world_ranks = world };

        (void)digits(rows[i].group_of, group_of);
        assert_int_equal(grouping_follows_ranks(&set, group_of), rows[i].follow);
    }
}
