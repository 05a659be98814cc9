/*
 * How the ranks of a process set lie on nodes.
 */
#include "base/mem.h"
#include "ops/gpu/nodes.h"
#include "test/unit/unit.h"

enum {
    RANKS = 6
};

/* Nodes alternate. */
static const int node_of[RANKS] = { 0, 1, 2, 0, 1, 2 };

static struct nodes_view look(const int *members, int size, int rank)
{
    const struct op_set set = { .rank = rank, .size = size, .world_ranks = members };
    struct nodes_view view = { .count = -1 };

    assert_int_equal(nodes_view_make(&view, &set, node_of, RANKS), TUTTI_OK);
    return view;
}

UNIT_TEST(test_equally_many)
{
    static const int backwards[] = { 5, 4, 3, 2, 1, 0 };

    for (int r = 0; r < RANKS; r++) {
        const struct nodes_view view = look(backwards, RANKS, r);

        assert_int_equal(view.count, 3);
        assert_int_equal(view.each, 2);
        assert_int_equal(view.node, node_of[5 - r]);
        assert_int_equal(view.local, r / 3);
        assert_true(nodes_view_has_steps(&view));
    }
}

/* All members find the same, also those whose own node has most. */
UNIT_TEST(test_unequally_many)
{
    static const int members[] = { 0, 1, 3 };

    for (int r = 0; r < 3; r++) {
        const struct nodes_view view = look(members, 3, r);

        assert_int_equal(view.count, 2);
        assert_int_equal(view.each, 0);
        assert_false(nodes_view_has_steps(&view));
    }
}

UNIT_TEST(test_one_node_or_one_rank_each)
{
    static const int node[] = { 3, 0 };
    static const int apart[] = { 0, 1, 5 };
    struct nodes_view view = look(node, 2, 0);

    assert_int_equal(view.count, 1);
    assert_int_equal(view.each, 2);
    assert_false(nodes_view_has_steps(&view));
    view = look(apart, 3, 2);
    assert_int_equal(view.count, 3);
    assert_int_equal(view.each, 1);
    assert_false(nodes_view_has_steps(&view));
}
