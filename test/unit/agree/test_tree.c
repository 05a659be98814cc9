/*
 * The coordination tree: one tree, short, and crossing each network link once.
 */
#include "agree/tree.h"
#include "base/mem.h"
#include "test/unit/unit.h"

enum {
    RANKS = 23
};

/* Nodes whose ranks are not contiguous. */
static const int scattered[RANKS] = { 2, 0, 2, 1, 1, 0, 3, 2, 2, 0, 1, 4, 4, 2, 2, 0, 3,
    1, 1, 0, 2, 4, 0 };

static struct tree_shape shape_of(int fanout)
{
    struct tree_shape shape;

    assert_true(tree_shape_init(&shape, RANKS, scattered, fanout));
    return shape;
}

static struct tree tree_of(const struct tree_shape *shape, int rank)
{
    struct tree tree;

    assert_true(tree_init(&tree, shape, rank));
    return tree;
}

static bool is_below(const struct tree_shape *shape, int member, int top)
{
    while (member >= 0 && member != top) {
        member = tree_shape_parent(shape, member);
    }
    return member == top;
}

/* Checks the tree as a rank sees it; returns its number of children. */
static int check_children(const struct tree_shape *shape, int rank)
{
    struct tree tree = tree_of(shape, rank);
    const int count = tree.child_count;

    assert_int_equal(tree.parent, tree_shape_parent(shape, rank));
    for (int c = 0; c < count; c++) {
        assert_int_equal(tree_shape_parent(shape, tree.children[c]), rank);
        assert_true(tree.children[c] > rank);
        assert_int_equal(tree_child_index(&tree, tree.children[c]), c);
    }
    assert_int_equal(tree_child_index(&tree, rank), -1);
    tree_fini(&tree);
    return count;
}

UNIT_TEST(test_every_member_is_the_child_of_its_parent)
{
    for (int fanout = 2; fanout <= 5; fanout++) {
        struct tree_shape shape = shape_of(fanout);
        int reached = 0;

        for (int r = 0; r < RANKS; r++) {
            reached += check_children(&shape, r);
        }
        assert_int_equal(reached, RANKS - 1);
        tree_shape_fini(&shape);
    }
}

UNIT_TEST(test_only_the_first_rank_of_a_node_has_a_parent_on_another)
{
    struct tree_shape shape = shape_of(2);
    int crossings = 0;

    assert_int_equal(tree_shape_parent(&shape, 0), -1);
    for (int r = 1; r < RANKS; r++) {
        crossings += scattered[tree_shape_parent(&shape, r)] != scattered[r] ? 1 : 0;
    }
    assert_int_equal(crossings, 4);
    tree_shape_fini(&shape);
}

UNIT_TEST(test_no_rank_has_more_children_than_twice_the_fanout)
{
    struct tree_shape shape = shape_of(3);

    for (int r = 0; r < RANKS; r++) {
        assert_true(check_children(&shape, r) <= 6);
    }
    tree_shape_fini(&shape);
}

UNIT_TEST(test_each_rank_knows_what_is_below_each_of_its_children)
{
    struct tree_shape shape = shape_of(2);
    int total = 0;

    for (int top = 0; top < RANKS; top++) {
        struct tree tree = tree_of(&shape, top);

        for (int r = 0; r < RANKS; r++) {
            const int child = tree_child_above(&tree, r);

            assert_int_equal(child >= 0, r != top && is_below(&shape, r, top));
            assert_true(child < 0 || is_below(&shape, r, tree.children[child]));
            total += top == 0 && child >= 0 ? 1 : 0;
        }
        tree_fini(&tree);
    }
    assert_int_equal(total, RANKS - 1);
    tree_shape_fini(&shape);
}
