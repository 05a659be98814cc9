/*
 * The map between ranks and nodes.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "test/unit/unit.h"
#include "topo/nodes.h"

UNIT_TEST(test_ranks_of_a_node_need_not_be_contiguous)
{
    static const char *const hosts[] = { "b", "a", "b", "c", "a", "b" };
    static const int node_of[] = { 0, 1, 0, 2, 1, 0 };
    static const int local_of[] = { 0, 0, 1, 0, 1, 2 };
    static const int local_size[] = { 3, 2, 1 };
    struct nodes nodes;

    assert_int_equal(nodes_init(&nodes, hosts, 6), TUTTI_OK);

    assert_int_equal(nodes.size, 6);
    assert_int_equal(nodes.count, 3);
    assert_memory_equal(nodes.node_of, node_of, sizeof node_of);
    assert_memory_equal(nodes.local_of, local_of, sizeof local_of);
    assert_memory_equal(nodes.local_size, local_size, sizeof local_size);
    nodes_fini(&nodes);
}

UNIT_TEST(test_one_rank_is_one_node)
{
    static const char *const hosts[] = { "" };
    struct nodes nodes;

    assert_int_equal(nodes_init(&nodes, hosts, 1), TUTTI_OK);
    assert_int_equal(nodes.count, 1);
    assert_int_equal(nodes.node_of[0], 0);
    assert_int_equal(nodes.local_size[0], 1);
    nodes_fini(&nodes);
}

UNIT_TEST(test_texts_that_begin_alike_are_different_hosts)
{
    static const char *const hosts[] = { "node1", "node11", "node", "node1" };
    struct nodes nodes;

    assert_int_equal(nodes_init(&nodes, hosts, 4), TUTTI_OK);
    assert_int_equal(nodes.count, 3);
    assert_int_equal(nodes.node_of[3], nodes.node_of[0]);
    nodes_fini(&nodes);
}

enum {
    MANY_RANKS = 5000,
    MANY_NODES = 700
};

UNIT_TEST(test_many_ranks_are_dealt_round_robin)
{
    static char names[MANY_NODES][16];
    static const char *hosts[MANY_RANKS];
    struct nodes nodes;
    int rank;

    for (rank = 0; rank < MANY_NODES; rank++) {
        (void)snprintf(names[rank], sizeof names[rank], "host-%d", rank);
    }
    for (rank = 0; rank < MANY_RANKS; rank++) {
        hosts[rank] = names[rank % MANY_NODES];
    }
    assert_int_equal(nodes_init(&nodes, hosts, MANY_RANKS), TUTTI_OK);

    assert_int_equal(nodes.count, MANY_NODES);
    for (rank = 0; rank < MANY_RANKS; rank++) {
        assert_int_equal(nodes.node_of[rank], rank % MANY_NODES);
        assert_int_equal(nodes.local_of[rank], rank / MANY_NODES);
    }
    nodes_fini(&nodes);
}

UNIT_TEST(test_lack_of_memory_anywhere_is_reported)
{
    static const char *const hosts[] = { "a", "b", "a" };
    struct nodes nodes = { .size = -1 };
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    uint64_t n;

    for (n = 1; status == TUTTI_ERR_NO_MEMORY; n++) {
        assert_int_equal(nodes.size, -1);
        mem_fail_at(n);
        status = nodes_init(&nodes, hosts, 3);
    }
    mem_fail_at(0);
    assert_int_equal(status, TUTTI_OK);
    assert_true(n > 5);
    assert_int_equal(nodes.count, 2);
    nodes_fini(&nodes);
}

UNIT_TEST(test_a_zeroed_map_can_be_released)
{
    struct nodes nodes = { .size = 0 };

    nodes_fini(&nodes);
}
