/*
 * The backend of sets of one rank.
 */
#include <string.h>

#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "ops/self/self.h"
#include "test/batch/batch.h"
#include "test/unit/unit.h"

static const int world_ranks[] = { 0, 1 };
static const struct op_set alone = { .size = 1, .world_ranks = world_ranks };

/** Starts the batch and steps it to its end, which has a status; the number of steps. */
static int run_to(tutti_status end, const struct op_batch *batch)
{
    const struct op_env env = { .world_size = 1 };
    void *task = mem_calloc(1, op_self.task_bytes);
    void *opened = NULL;
    tutti_status status;
    bool moved = false;
    int steps = 0;

    assert_non_null(task);
    ASSERT_OK(op_self.open(&env, &opened));
    assert_true(op_self.accepts(opened, batch));
    ASSERT_OK(op_self.start(opened, task, batch));
    do {
        status = op_self.step(opened, task, &moved);
        assert_true(moved);
        steps++;
    } while (status == TUTTI_AGAIN);
    assert_int_equal(status, end);
    op_self.close(opened);
    mem_free(task);
    return steps;
}

static int run(const struct op_batch *batch)
{
    return run_to(TUTTI_OK, batch);
}

static struct op_batch allreduce_of(tutti_dtype dtype, tutti_reduce_op op,
        const struct op_run *runs, size_t run_count)
{
    struct op_batch batch = { .set = &alone,
        .collective = TUTTI_ALLREDUCE,
        .dtype = dtype,
        .op = op,
        .divisor = 1,
        .prescale = 1,
        .postscale = 1,
        .runs = runs,
        .run_count = run_count };

    for (size_t i = 0; i < run_count; i++) {
        batch.count += runs[i].count;
    }
    return batch;
}

UNIT_TEST(test_every_operation)
{
    for (uint64_t i = 0; i < 400; i++) {
        struct batch_order order = batch_order_random(1, pattern_mix(1, i));
        struct batch batch;

        order.set = &alone;
        order.sequence = i;
        batch_make(&batch, &order, op_self.task_bytes);
        (void)run(&batch.op);
        assert_null(batch_error(&batch));
        batch_free(&batch);
    }
}

UNIT_TEST(test_large_tensors_take_several_steps)
{
    enum {
        COUNT = 1 << 20
    };
    uint8_t *input = mem_alloc(COUNT);
    uint8_t *output = mem_calloc(COUNT, 1);
    const struct op_run runs[] = {
        { .input = input, .output = output, .count = COUNT }
    };
    struct op_batch batch = allreduce_of(TUTTI_UINT8, TUTTI_MAX, runs, 1);

    assert_non_null(input);
    assert_non_null(output);
    for (int i = 0; i < COUNT; i++) {
        input[i] = (uint8_t)(i * 7);
    }

    assert_int_equal(run(&batch), 4); /* of 256 KiB */

    assert_memory_equal(input, output, COUNT);
    mem_free(input);
    mem_free(output);
}

UNIT_TEST(test_a_failure_to_place_ends_the_batch)
{
    const struct batch_order order = { .set = &alone,
        .operation = { .collective = TUTTI_ALLGATHER, .form = FORM_UNKNOWN },
        .run_count = 2,
        .counts = { 10, 10 } };
    struct batch batch;

    batch_make(&batch, &order, op_self.task_bytes);
    batch.fail_place_at = 2;
    (void)run_to(TUTTI_ERR_NO_MEMORY, &batch.op);
    batch_free(&batch);
}

UNIT_TEST(test_it_accepts_what_it_can_do)
{
    const struct op_set pair = { .size = 2, .world_ranks = world_ranks };
    struct op_batch batch = allreduce_of(TUTTI_BOOL, TUTTI_MIN, NULL, 0);

    assert_true(op_self.accepts(NULL, &batch));
    batch.op = TUTTI_SUM;
    assert_false(op_self.accepts(NULL, &batch));
    batch.collective = TUTTI_BROADCAST;
    assert_true(op_self.accepts(NULL, &batch));
    batch.set = &pair;
    assert_false(op_self.accepts(NULL, &batch));
}

/* What every rank of a set of three gets, in place and from two runs, in any order. */
UNIT_TEST(test_operands_of_others_are_reduced_as_by_their_owners)
{
    enum {
        FIRST = 3,
        COUNT = 300,
        RANKS = 3
    };

    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_FLOAT16, TUTTI_INT16 };
    static const struct op_set three = { .rank = 1, .size = RANKS };
    static uint32_t operands[RANKS][COUNT], own[COUNT], expected[COUNT];
    struct op_operand last = { .member = 0, .bytes = (const uint8_t *)operands[0] };
    const struct op_operand first = {
        .next = &last, .member = 2, .bytes = (const uint8_t *)operands[2]
    };
    const void *inputs[RANKS] = { operands[0], operands[1], operands[2] };
    void *output = expected;

    (void)state;
    for (uint32_t i = 0; i < RANKS * COUNT; i++) {
        operands[i / COUNT][i % COUNT] = 0x3f000000 + i * 2654435769U % 0x01000000;
    }
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        const size_t count = sizeof own / tutti_dtype_size(dtypes[d]);
        uint8_t *rest = (uint8_t *)own + FIRST * tutti_dtype_size(dtypes[d]);
        const struct op_run runs[] = { { .input = own, .output = own, .count = FIRST },
            { .input = rest, .output = rest, .count = count - FIRST } };
        const bool scales = dtypes[d] == TUTTI_FLOAT16;
        struct op_batch batch =
                allreduce_of(dtypes[d], scales ? TUTTI_AVERAGE : TUTTI_SUM, runs, 2);
        struct reduce_spec spec;

        memcpy(own, operands[1], sizeof own);
        batch.set = &three;
        batch.divisor = RANKS;
        batch.prescale = scales ? 0.7 : 1;
        spec = reduce_spec_of(&batch);
        reduce_tree(&spec, inputs, RANKS, &output, 1, count);
        assert_false(op_self.accepts(NULL, &batch));
        batch.operands = &first;
        (void)run(&batch);
        assert_memory_equal(own, expected, sizeof own);
    }
}
