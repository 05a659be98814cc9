/*
 * The planner: which tensors of a log message share a batch.
 */
#include "agree/planner.h"
#include "base/mem.h"
#include "test/unit/unit.h"

static const struct planner_limits limits = { .batch_bytes = 100, .tensor_bytes = 60 };

/** A tensor. */
struct item {
    int collective;
    struct meta meta;
    size_t bytes;
    uint64_t joined;
};

static struct item item(tutti_dtype dtype, size_t bytes)
{
    return (struct item){ .collective = TUTTI_ALLREDUCE,
        .meta = { .dtype = dtype, .op = TUTTI_SUM, .prescale = 1, .postscale = 1 },
        .bytes = bytes };
}

static struct item grouped(tutti_dtype dtype, size_t bytes, uint64_t group)
{
    struct item result = item(dtype, bytes);

    result.meta.group = group;
    return result;
}

/* Adds all, and compares with the expected batch of each. */
static void expect(const struct planner_limits *with, const struct item *items,
        const size_t *batches, size_t count)
{
    struct planner planner = { .batches = NULL };
    size_t most = 0;

    planner_begin(&planner);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(planner_add(&planner, with, items[i].collective,
                                 &items[i].meta, items[i].bytes, items[i].joined),
                batches[i]);
        most = batches[i] > most ? batches[i] : most;
    }
    assert_int_equal(planner.count, most + 1);
    planner_fini(&planner);
}

UNIT_TEST(test_small_tensors_fill_a_batch_to_its_limit)
{
    struct item items[] = { item(TUTTI_FLOAT32, 40), item(TUTTI_FLOAT32, 60),
        item(TUTTI_FLOAT32, 1) };

    expect(&limits, items, (const size_t[]){ 0, 0, 1 }, 3);
}

UNIT_TEST(test_every_part_of_the_key_separates)
{
    struct item items[9];

    for (int i = 0; i < 9; i++) {
        items[i] = item(TUTTI_FLOAT32, 4);
    }
    items[1].collective = TUTTI_BROADCAST;
    items[2].meta.op = TUTTI_AVERAGE;
    items[3].meta.root = 1;
    items[4].meta.prescale = 0.5;
    items[5].meta.postscale = 0.5;
    items[6].meta.group = 1;
    items[7].meta.space = OP_DEVICE;
    items[8].joined = 1;
    expect(&limits, items, (const size_t[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8 }, 9);
}

/* Long tensors of a device are fused, up to a limit of its own. */
UNIT_TEST(test_a_device_has_its_own_limit)
{
    const struct planner_limits both = {
        .batch_bytes = 100, .tensor_bytes = 60, .device_bytes = 1000
    };
    const struct planner_limits no_fusion = {
        .batch_bytes = 100, .tensor_bytes = 60, .device_bytes = 1
    };
    struct item items[6];

    for (int i = 0; i < 6; i++) {
        items[i] = item(TUTTI_FLOAT32, i == 5 ? 60 : 400);
        items[i].meta.space = i < 4 ? OP_DEVICE : OP_HOST;
    }
    expect(&both, items, (const size_t[]){ 0, 0, 1, 1, 2, 3 }, 6);
    expect(&no_fusion, items, (const size_t[]){ 0, 1, 2, 3, 4, 5 }, 6);
}

UNIT_TEST(test_a_group_shares_a_batch_whatever_its_size)
{
    struct item items[] = { grouped(TUTTI_FLOAT32, 500, 1),
        grouped(TUTTI_FLOAT16, 90, 1), grouped(TUTTI_FLOAT32, 90, 1),
        grouped(TUTTI_FLOAT32, 90, 2) };
    const struct planner_limits no_fusion = { .batch_bytes = 0, .tensor_bytes = 60 };

    expect(&limits, items, (const size_t[]){ 0, 1, 0, 2 }, 4);
    expect(&no_fusion, items, (const size_t[]){ 0, 1, 0, 2 }, 4);
}

UNIT_TEST(test_a_group_of_many_keys_is_not_torn)
{
    enum {
        KEYS = 40
    };
    struct item items[2 * KEYS];
    size_t batches[2 * KEYS];

    for (int i = 0; i < 2 * KEYS; i++) {
        items[i] = grouped(TUTTI_FLOAT32, 4, 7);
        items[i].meta.root = i % KEYS;
        batches[i] = (size_t)(i % KEYS);
    }
    expect(&limits, items, batches, (size_t)2 * KEYS);
}

UNIT_TEST(test_the_look_back_is_bounded)
{
    enum {
        OTHERS = 16
    };
    struct item items[OTHERS + 2];
    size_t batches[OTHERS + 2];

    for (size_t i = 0; i < OTHERS + 2; i++) {
        items[i] = item(TUTTI_FLOAT32, 4);
        items[i].meta.root = i == 0 || i == OTHERS + 1 ? 0 : (int)i;
        batches[i] = i;
    }
    expect(&limits, items, batches, OTHERS + 2);
    batches[OTHERS] = 0;
    items[OTHERS].meta.root = 0;
    expect(&limits, items, batches, OTHERS + 1);
}

UNIT_TEST(test_sizes_near_the_largest_do_not_wrap)
{
    const struct planner_limits huge = { .batch_bytes = SIZE_MAX / 2,
        .tensor_bytes = SIZE_MAX };
    struct item items[] = { item(TUTTI_INT8, SIZE_MAX / 2),
        item(TUTTI_INT8, SIZE_MAX - 1), item(TUTTI_INT8, 1) };

    expect(&huge, items, (const size_t[]){ 0, 1, 2 }, 3);
}

static struct item moved(int collective, tutti_dtype dtype, size_t bytes)
{
    struct item result = item(dtype, bytes);

    result.collective = collective;
    return result;
}

UNIT_TEST(test_moves_of_different_types_share_a_batch)
{
    struct item items[] = { moved(TUTTI_ALLGATHER, TUTTI_FLOAT32, 8),
        moved(TUTTI_ALLGATHER, TUTTI_INT8, 8), moved(TUTTI_BROADCAST, TUTTI_INT8, 8),
        moved(TUTTI_BROADCAST, TUTTI_FLOAT64, 8),
        moved(TUTTI_REDUCESCATTER, TUTTI_FLOAT32, 8),
        moved(TUTTI_REDUCESCATTER, TUTTI_FLOAT64, 8) };

    items[1].meta.op = TUTTI_MAX;
    expect(&limits, items, (const size_t[]){ 0, 0, 1, 1, 2, 3 }, 6);
}

UNIT_TEST(test_unknown_sizes_are_launched_alone)
{
    struct item items[] = { moved(TUTTI_ALLGATHER, TUTTI_INT8, SIZE_MAX),
        moved(TUTTI_ALLGATHER, TUTTI_INT8, SIZE_MAX),
        moved(TUTTI_ALLGATHER, TUTTI_INT8, 8), moved(TUTTI_ALLGATHER, TUTTI_INT8, 8) };

    expect(&limits, items, (const size_t[]){ 0, 1, 2, 2 }, 4);
}
