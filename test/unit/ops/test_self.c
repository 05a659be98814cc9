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
