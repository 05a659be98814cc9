/*
 * Which supervisor is connected to which, from 129 to 8,192 hosts: nobody has too many, all have
 * one way to tuttirun, also when relays are lost.
 */
#include "base/mem.h"
#include "launcher/job/tree.h"
#include "test/unit/unit.h"

enum {
    FAN_OUT = 128,
    HOSTS_MAX = 8192
};

/* A rank on each host, in an order that is not theirs. */
static void grow(struct tree *tree, int count, int fan_out, int per_host)
{
    const int stride = 4099; /* without a common divisor with any count here */

    assert_int_equal(tree_init(tree, count, fan_out), TUTTI_OK);
    for (int i = 0; i < count; i++) {
        const int rank = (int)((long)i * stride % count);

        (void)tree_place(tree, rank, rank / per_host, true, TREE_NONE);
    }
}

/* Degrees by their definition; returns the greatest depth. */
static int check(const struct tree *tree)
{
    int *below = mem_calloc((size_t)tree->count, sizeof *below);
    int deepest = 0;
    int top = 0;

    assert_non_null(below);
    for (int i = 0; i < tree->count; i++) {
        const int above = tree->nodes[i].above;
        const int depth = tree_depth(tree, i);

        if (above == TREE_NONE) {
            continue;
        }
        assert_true(depth >= 0);
        deepest = depth > deepest ? depth : deepest;
        top += above == TREE_TOP ? 1 : 0;
        if (above >= 0) {
            assert_int_not_equal(tree->nodes[above].above, TREE_NONE);
            below[above]++;
        }
    }
    assert_int_equal(top, tree->top);
    assert_true(top <= tree->fan_out);
    for (int i = 0; i < tree->count; i++) {
        assert_true(below[i] <= tree->fan_out);
        assert_int_equal(below[i], tree->nodes[i].below);
    }
    mem_free(below);
    return deepest;
}

UNIT_TEST(test_nobody_has_more_than_the_fan_out)
{
    static const struct {
        int hosts, fan_out, depth;
    } rows[] = {
        { 129, FAN_OUT, 1 },
        { 1000, FAN_OUT, 1 },
        { HOSTS_MAX, FAN_OUT, 1 },
        { HOSTS_MAX, 2,
                11 }, /* 2 + 4 + ... + 4096 = 8190 have at most 11 relays above */
        { 8, 2, 2 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tree tree;
        int depth;

        grow(&tree, rows[i].hosts, rows[i].fan_out, 1);
        depth = check(&tree);
        assert_true(depth >= rows[i].depth && depth <= rows[i].depth + 1);
        tree_fini(&tree);
    }
}

UNIT_TEST(test_a_host_has_one_connection_to_others)
{
    const int per_host = 8;
    struct tree tree;

    grow(&tree, 1024 * per_host, FAN_OUT, per_host);
    assert_true(check(&tree) <= 3);
    for (int host = 0; host < 1024; host++) {
        int others = 0;

        for (int i = host * per_host; i < (host + 1) * per_host; i++) {
            const int above = tree.nodes[i].above;

            others += above < 0 || tree.nodes[above].host != host ? 1 : 0;
        }
        assert_int_equal(others, 1);
    }
    tree_fini(&tree);
}

/* Those below a relay that is lost get other places, and those below them stay. */
UNIT_TEST(test_who_loses_a_relay_gets_another)
{
    const int fan_out = 4;
    struct tree tree;

    grow(&tree, 1000, fan_out, 1);
    for (int lost = 0; lost < 900; lost += 7) {
        tree_remove(&tree, lost);
        for (int i = 0; i < tree.count; i++) {
            if (tree.nodes[i].above != lost) {
                continue;
            }
            assert_int_equal(tree_depth(&tree, i), -1);
            assert_int_not_equal(
                    tree_place(&tree, i, tree.nodes[i].host, true, lost), lost);
            assert_true(tree_depth(&tree, i) >= 0);
        }
        (void)check(&tree);
    }
    tree_fini(&tree);
}

UNIT_TEST(test_who_cannot_be_called_gets_none_below)
{
    struct tree tree;

    assert_int_equal(tree_init(&tree, 5, 1), TUTTI_OK);
    assert_int_equal(tree_place(&tree, 0, 0, false, TREE_NONE), TREE_TOP);
    /* Nothing else is left. */
    assert_int_equal(tree_place(&tree, 1, 1, true, TREE_NONE), TREE_TOP);
    assert_int_equal(tree_place(&tree, 2, 2, true, TREE_NONE), 1);
    assert_int_equal(tree_place(&tree, 3, 3, true, 2), TREE_TOP);
    tree_fini(&tree);
}
