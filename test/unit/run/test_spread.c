/*
 * The news of a failure reaches every rank that lives.
 */
#include <string.h>

#include "run/spread.h"
#include "test/unit/unit.h"

enum {
    RANKS_MAX = 1500
};

/* Ranks that hear of it, from rank 0 on, where `lost` ranks in a row from rank 1 on are silent. */
static int hear(int ranks, int lost)
{
    static int queue[RANKS_MAX];
    static bool heard[RANKS_MAX];
    int peers[SPREAD_PEERS_MAX];
    int count = 1;

    memset(heard, 0, sizeof heard);
    heard[0] = true;
    queue[0] = 0;
    for (int i = 0; i < count; i++) {
        const int told = spread_peers(queue[i], ranks, peers);

        for (int p = 0; p < told; p++) {
            const bool is_lost = peers[p] >= 1 && peers[p] <= lost;

            if (!heard[peers[p]] && !is_lost) {
                heard[peers[p]] = true;
                queue[count++] = peers[p];
            }
        }
    }
    return count;
}

UNIT_TEST(test_neighbours_are_few_and_others)
{
    for (int ranks = 2; ranks < RANKS_MAX; ranks++) {
        int peers[SPREAD_PEERS_MAX];
        const int count = spread_peers(ranks / 3, ranks, peers);

        assert_true(1 << (count / 2) <= ranks);
        for (int i = 0; i < count; i++) {
            assert_in_range(peers[i], 0, ranks - 1);
            assert_int_not_equal(peers[i], ranks / 3);
            for (int k = 0; k < i; k++) {
                assert_int_not_equal(peers[i], peers[k]);
            }
        }
    }
    assert_true(spread_peers(0, INT32_MAX, (int[SPREAD_PEERS_MAX]){ 0 }) <=
            SPREAD_PEERS_MAX);
}

UNIT_TEST(test_all_ranks_hear_of_it)
{
    for (int ranks = 2; ranks < RANKS_MAX; ranks += 7) {
        assert_int_equal(hear(ranks, 0), ranks);
    }
}

/* A whole node, or many. */
UNIT_TEST(test_those_that_are_lost_cut_nobody_off)
{
    for (int lost = 1; lost < 600; lost++) {
        assert_int_equal(hear(1024, lost), 1024 - lost);
    }
}
