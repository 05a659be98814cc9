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

/* Checks the tree as a rank sees it; returns its number of children. */
static int check_children(int rank, int fanout)
{
    struct tree tree;
    int count;

    assert_true(tree_init(&tree, RANKS, rank, scattered, fanout));
    for (int c = 0; c < tree.child_count; c++) {
        assert_int_equal(tree.parents[tree.children[c]], rank);
        assert_true(tree.children[c] > rank);
        assert_int_equal(tree_child_index(&tree, tree.children[c]), c);
    }
    assert_int_equal(tree_child_index(&tree, rank), -1);
    count = tree.child_count;
    tree_fini(&tree);
    return count;
}

UNIT_TEST(test_every_member_is_the_child_of_its_parent)
{
    for (int fanout = 2; fanout <= 5; fanout++) {
        int reached = 0;

        for (int r = 0; r < RANKS; r++) {
            reached += check_children(r, fanout);
        }
        assert_int_equal(reached, RANKS - 1);
    }
}

UNIT_TEST(test_only_the_first_rank_of_a_node_has_a_parent_on_another)
{
    struct tree tree;
    int crossings = 0;

    assert_true(tree_init(&tree, RANKS, 0, scattered, 2));
    assert_int_equal(tree.parents[0], -1);
    for (int r = 1; r < RANKS; r++) {
        const int parent = tree.parents[r];

        crossings += scattered[parent] != scattered[r] ? 1 : 0;
    }
    assert_int_equal(crossings, 4);
    tree_fini(&tree);
}

UNIT_TEST(test_no_rank_has_more_children_than_twice_the_fanout)
{
    for (int r = 0; r < RANKS; r++) {
        struct tree tree;

        assert_true(tree_init(&tree, RANKS, r, scattered, 3));
        assert_true(tree.child_count <= 6);
        tree_fini(&tree);
    }
}

UNIT_TEST(test_subtrees_hold_what_is_below_each_child)
{
    struct tree tree;
    int total = 0;

    assert_true(tree_init(&tree, RANKS, 0, scattered, 2));
    for (int c = 0; c < tree.child_count; c++) {
        total += bitset_count(&tree.subtrees[c]);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(bitset_has(&tree.subtrees[c], r),
                    tree_is_below(&tree, r, tree.children[c]));
        }
    }
    assert_int_equal(total, RANKS - 1);
    assert_true(tree_is_below(&tree, 7, 0));
    assert_true(tree_is_below(&tree, 7, 7));
    assert_false(tree_is_below(&tree, 0, 7));
    tree_fini(&tree);
}

UNIT_TEST(test_a_set_of_one_is_a_root_without_children)
{
    const int node = 5;
    struct tree tree;

    assert_true(tree_init(&tree, 1, 0, &node, 2));
    assert_int_equal(tree.parents[0], -1);
    assert_int_equal(tree.child_count, 0);
    tree_fini(&tree);
}

UNIT_TEST(test_running_out_of_memory_leaks_nothing)
{
    struct tree tree;
    uint64_t n = 0;
    bool ok;

    do {
        mem_fail_at(++n);
        ok = tree_init(&tree, RANKS, 0, scattered, 2);
    } while (!ok);
    mem_fail_at(0);
    assert_true(n > 4);
    tree_fini(&tree);
}
