/*
 * What collectives take at least, on a machine with round numbers.
 */
#include "test/unit/unit.h"
#include "tools/info/limits.h"

/* 1 GB/s is 1000 bytes per us. */
static const struct machine_facts machine = { .cores = 4,
    .levels = { { .name = "L2", .bytes = 1000, .all = 10 },
            { .name = "L3", .bytes = 100000, .all = 4 },
            { .name = "memory", .all = 1 } },
    .level_count = 3,
    .flag_ns = 100,
    .link_us = 20,
    .link_mbs = 100 };

static void expect(
        tutti_collective collective, int ranks, int nodes, uint64_t bytes, double us)
{
    const struct limits limits = limits_of(&machine, collective, ranks, nodes, bytes);

    assert_true(limits_us(&limits) > 0.999 * us && limits_us(&limits) < 1.001 * us);
}

UNIT_TEST(test_memory_is_the_limit_of_a_node)
{
    expect(TUTTI_ALLREDUCE, 2, 1, 1000000, 4000);
    expect(TUTTI_REDUCESCATTER, 3, 1, 1000000, 4000);
    expect(TUTTI_ALLGATHER, 3, 1, 1000000, 4000);
    expect(TUTTI_BROADCAST, 2, 1, 1000000, 2000);
    expect(TUTTI_ALLTOALL, 2, 1, 1000000, 4000);
}

/* The nearest level that holds all that is moved: each rank has an L2 as long as there are cores. */
UNIT_TEST(test_caches_are_faster)
{
    expect(TUTTI_ALLREDUCE, 4, 1, 500, 0.4);
    expect(TUTTI_ALLREDUCE, 4, 1, 501, 8 * 501 / 4e3);
    expect(TUTTI_ALLREDUCE, 8, 1, 250, 0.4);
    expect(TUTTI_ALLREDUCE, 8, 1, 251, 16 * 251 / 4e3);
    expect(TUTTI_ALLREDUCE, 2, 1, 25000, 25);
    expect(TUTTI_ALLREDUCE, 2, 1, 25001, 100.004);
}

UNIT_TEST(test_no_rank_knows_of_another_at_once)
{
    const struct limits limits = limits_of(&machine, TUTTI_ALLREDUCE, 2, 1, 4);

    assert_string_equal(limits_name(&limits), "latency");
    expect(TUTTI_ALLREDUCE, 2, 1, 4, 0.1);
    expect(TUTTI_BROADCAST, 1, 2, 4, 20);
}

UNIT_TEST(test_the_link_is_the_limit_between_nodes)
{
    const struct limits limits = limits_of(&machine, TUTTI_ALLREDUCE, 1, 4, 1000000);

    assert_string_equal(limits_name(&limits), "link");
    expect(TUTTI_ALLREDUCE, 1, 4, 1000000, 15000);
    expect(TUTTI_ALLGATHER, 1, 4, 1000000, 7500);
    expect(TUTTI_BROADCAST, 1, 4, 1000000, 10000);
    expect(TUTTI_ALLTOALL, 2, 2, 1000000, 10000);
}
