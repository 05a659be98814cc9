/*
 * The model that chooses between algorithms: which is fastest where, on a link of 10 Gbit/s.
 */
#include "ops/p2p/cost.h"
#include "test/unit/unit.h"

static const struct op_link ethernet = {
    .message_bytes = 60 << 10, .latency_us = 30, .overhead_us = 2, .bytes_per_us = 1200
};

static enum p2p_reduction fastest(int n, size_t bytes)
{
    enum p2p_reduction best = P2P_GATHER;

    for (int which = 0; which < P2P_REDUCTION_COUNT; which++) {
        if (p2p_cost_us(&ethernet, (enum p2p_reduction)which, n, bytes) <
                p2p_cost_us(&ethernet, best, n, bytes)) {
            best = (enum p2p_reduction)which;
        }
    }
    return best;
}

UNIT_TEST(test_few_ranks_gather_many_double_and_long_ones_go_direct)
{
    assert_int_equal(fastest(2, 4), P2P_GATHER);
    assert_int_equal(fastest(8, 4), P2P_GATHER);
    assert_int_equal(fastest(128, 4), P2P_DOUBLING);
    assert_int_equal(fastest(90, 4), P2P_GATHER); /* twice the hops */
    assert_int_equal(fastest(1000, 4), P2P_DOUBLING);
    for (int n = 3; n < 40; n++) {
        assert_int_equal(fastest(n, (size_t)64 << 20), P2P_DIRECT);
    }
}

UNIT_TEST(test_a_formula_is_what_its_comment_says)
{
    const size_t bytes = 60000; /* 50 us */

    assert_true(
            p2p_cost_us(&ethernet, P2P_GATHER, 4, bytes) == 30 + 2 * 2 * 2 + 3 * 50);
    assert_true(p2p_cost_us(&ethernet, P2P_DOUBLING, 4, bytes) == 2 * (30 + 50));
    assert_true(p2p_cost_us(&ethernet, P2P_DOUBLING, 5, bytes) == 2 * 3 * (30 + 50));
    assert_true(p2p_cost_us(&ethernet, P2P_DOUBLING, 4, 2 * bytes) ==
            2 * (3 * 30 + 2 * 100)); /* longer than a message */
    assert_true(p2p_cost_us(&ethernet, P2P_DIRECT, 4, bytes) ==
            2 * 30 + 4 * 3 * 2 + 2 * 0.75 * 50);
}
