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

UNIT_TEST(test_the_shape_lists_what_is_below_each_rank)
{
    struct tree_shape shape = shape_of(2);

    for (int top = 0; top < RANKS; top++) {
        int below[RANKS];
        const int count = tree_shape_below(&shape, top, below);
        int expected = 0;

        for (int r = 0; r < RANKS; r++) {
            expected += is_below(&shape, r, top) ? 1 : 0;
        }
        assert_int_equal(count, expected);
        for (int i = 0; i < count; i++) {
            assert_true(is_below(&shape, below[i], top));
        }
    }
    tree_shape_fini(&shape);
}

/* What most ranks keep does not grow with the set. */
UNIT_TEST(test_a_leaf_knows_its_parent_alone)
{
    struct tree_shape shape = shape_of(2);
    struct tree tree = tree_of(&shape, RANKS - 1);

    assert_int_equal(tree.child_count, 0);
    assert_int_equal(tree.range_count, 0);
    assert_null(tree.shape);
    tree_fini(&tree);
    tree_shape_fini(&shape);
}

UNIT_TEST(test_a_set_of_one_is_a_root_without_children)
{
    const int node = 5;
    struct tree_shape shape;
    struct tree tree;

    assert_true(tree_shape_init(&shape, 1, &node, 2));
    tree = tree_of(&shape, 0);
    assert_int_equal(tree.parent, -1);
    assert_int_equal(tree.child_count, 0);
    tree_fini(&tree);
    tree_shape_fini(&shape);
}

UNIT_TEST(test_running_out_of_memory_leaks_nothing)
{
    struct tree_shape shape;
    struct tree tree;
    uint64_t n = 0;
    bool ok;

    do {
        mem_fail_at(++n);
        ok = tree_shape_init(&shape, RANKS, scattered, 2);
        if (ok && !tree_init(&tree, &shape, 0)) {
            tree_shape_fini(&shape);
            ok = false;
        }
    } while (!ok);
    mem_fail_at(0);
    assert_true(n > 4);
    tree_fini(&tree);
    tree_shape_fini(&shape);
}
