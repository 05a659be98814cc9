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
    assert_ok(op_self.open(&env, &opened));
    assert_true(op_self.accepts(opened, batch));
    assert_ok(op_self.start(opened, task, batch));
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

UNIT_TEST(test_inputs_are_copied_run_by_run)
{
    const int32_t first[] = { 1, 2, 3 };
    const int32_t last[] = { 4, 5 };
    int32_t got[2][4] = { { 9, 9, 9, 9 }, { 9, 9, 9, 9 } };
    const struct op_run runs[] = {
        { .input = NULL, .output = NULL, .count = 0 },
        { .input = first, .output = got[0], .count = 3 },
        { .input = NULL, .output = NULL, .count = 0 },
        { .input = last, .output = got[1], .count = 2 },
    };
    const int32_t want[2][4] = { { 1, 2, 3, 9 }, { 4, 5, 9, 9 } };
    struct op_batch batch = allreduce_of(TUTTI_INT32, TUTTI_AVERAGE, runs, 4);

    (void)run(&batch);

    assert_memory_equal(got, want, sizeof want);
}

UNIT_TEST(test_scale_factors_apply)
{
    float values[] = { 1, -2, 3 };
    const struct op_run runs[] = { { .input = values, .output = values, .count = 3 } };
    const float want[] = { 6, -12, 18 };
    struct op_batch batch = allreduce_of(TUTTI_FLOAT32, TUTTI_SUM, runs, 1);

    batch.prescale = 2;
    batch.postscale = 3;
    (void)run(&batch);

    assert_memory_equal(values, want, sizeof want);
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

UNIT_TEST(test_a_broadcast_leaves_the_buffer_alone)
{
    uint8_t buffer[] = { 1, 2, 3 };
    const uint8_t want[] = { 1, 2, 3 };
    const struct op_run runs[] = { { .input = buffer, .output = buffer, .count = 3 } };
    struct op_batch batch = allreduce_of(TUTTI_FLOAT8_E4M3, TUTTI_SUM, runs, 1);

    batch.collective = TUTTI_BROADCAST;
    (void)run(&batch);

    assert_memory_equal(buffer, want, sizeof want);
}

UNIT_TEST(test_a_reduce_and_a_reducescatter_are_allreduces)
{
    const int32_t input[] = { 1, 2, 3 };
    struct op_part all = { .offset = 0, .bytes = sizeof input };

    for (int i = 0; i < 2; i++) {
        int32_t got[4] = { 9, 9, 9, 9 };
        const int32_t want[4] = { 1, 2, 3, 9 };
        const struct op_run runs[] = {
            { .input = input, .output = got, .count = 3, .sends = &all }
        };
        struct op_batch batch = allreduce_of(TUTTI_INT32, TUTTI_SUM, runs, 1);

        batch.collective = i == 0 ? TUTTI_REDUCE : TUTTI_REDUCESCATTER;
        (void)run(&batch);
        assert_memory_equal(got, want, sizeof want);
    }
}

UNIT_TEST(test_exchanges_move_the_own_parts)
{
    static const tutti_collective exchanges[] = { TUTTI_ALLGATHER, TUTTI_ALLTOALL,
        TUTTI_GATHER, TUTTI_SCATTER };

    for (uint64_t i = 0; i < 48; i++) {
        const struct batch_order order = { .set = &alone,
            .sequence = i,
            .operation = { .collective = exchanges[i % 4],
                    .form = i % 3 == 0 ? FORM_UNKNOWN : FORM_LISTED,
                    .is_sparse = true,
                    .in_place = i % 6 == 1 },
            .run_count = 1 + i % 3,
            .counts = { 700000, 700000, 700000 } };
        struct batch batch;

        batch_make(&batch, &order, op_self.task_bytes);
        (void)run(&batch.op);
        assert_null(batch_error(&batch));
        batch_free(&batch);
    }
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
