/*
 * Reductions cut for several threads: the pieces together are the whole, and small or
 * unwieldy work stays in one.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/reduce/share.h"
#include "test/unit/unit.h"

enum {
    OPERANDS_MAX = 70,
    COUNT_MAX = 40000
};

/** Threads that are made up: pieces run here, the last first. */
struct helpers {
    bool refuse;
    size_t calls;
    size_t pieces; /* of the last call */
};

/** Operands and results of a job. */
struct bench {
    struct helpers helpers;
    struct op_env env;
    double *memory[OPERANDS_MAX];
    const void *inputs[OPERANDS_MAX]; /* the same */
    void *outputs[2];
    void *want;
};

static bool share(
        void *user, void (*piece)(void *arg, size_t index), void *arg, size_t pieces)
{
    struct helpers *helpers = user;

    helpers->calls++;
    helpers->pieces = pieces;
    for (size_t i = pieces; i > 0 && !helpers->refuse; i--) {
        piece(arg, i - 1);
    }
    return !helpers->refuse;
}

static void *must_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);

    assert_non_null(memory);
    return memory;
}

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){ .helpers = { .refuse = false } };
    bench->env = (struct op_env){ .share = share, .share_user = &bench->helpers };
    for (int k = 0; k < OPERANDS_MAX; k++) {
        double *input = must_alloc(COUNT_MAX * sizeof *input);

        for (int i = 0; i < COUNT_MAX; i++) {
            input[i] = 1.0 / (1 + i + k * k);
        }
        bench->memory[k] = input;
        bench->inputs[k] = input;
    }
    for (int k = 0; k < 2; k++) {
        bench->outputs[k] = must_alloc(COUNT_MAX * sizeof(double));
    }
    bench->want = must_alloc(COUNT_MAX * sizeof(double));
}

static void bench_fini(struct bench *bench)
{
    for (int k = 0; k < OPERANDS_MAX; k++) {
        free(bench->memory[k]);
    }
    free(bench->outputs[0]);
    free(bench->outputs[1]);
    free(bench->want);
}

/* Reduces n operands in two ways; false when a byte differs, or is touched beyond. */
static bool is_right(struct bench *bench, int n, size_t count)
{
    const struct reduce_spec spec = { .dtype = TUTTI_FLOAT64,
        .op = TUTTI_AVERAGE,
        .divisor = n,
        .prescale = 1,
        .postscale = 1 };
    const struct reduce_job job = { .spec = &spec,
        .inputs = bench->inputs,
        .n = n,
        .outputs = bench->outputs,
        .m = 2,
        .count = count };
    const size_t bytes = COUNT_MAX * sizeof(double);

    memset(bench->outputs[0], 0x3c, bytes);
    memset(bench->outputs[1], 0x3c, bytes);
    memset(bench->want, 0x3c, bytes);
    reduce_shared(&bench->env, &job);
    reduce_tree(&spec, bench->inputs, n, (void *[]){ bench->want }, 1, count);
    return memcmp(bench->outputs[0], bench->want, bytes) == 0 &&
            memcmp(bench->outputs[1], bench->want, bytes) == 0;
}

UNIT_TEST(test_pieces_make_the_whole)
{
    static const size_t counts[] = { 4096, 4097, 10000, 16384, COUNT_MAX };
    static const int operands[] = { 1, 2, 3, 7, 64 };
    struct bench bench;
    size_t calls = 0;

    bench_init(&bench);
    for (size_t k = 0; k < sizeof operands / sizeof *operands; k++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            assert_true(is_right(&bench, operands[k], counts[i]));
            calls += operands[k] > 1 || counts[i] >= 8192;
            assert_int_equal(bench.helpers.calls, calls);
            assert_true(bench.helpers.calls == 0 || bench.helpers.pieces >= 2);
        }
    }
    bench_fini(&bench);
}

UNIT_TEST(test_pieces_are_neither_tiny_nor_larger_than_needed)
{
    struct bench bench;

    bench_init(&bench);
    /* Two operands: 16 KiB, 2048 elements of each. Many: 4 KiB. */
    assert_true(is_right(&bench, 2, 16384));
    assert_int_equal(bench.helpers.pieces, 8);
    assert_true(is_right(&bench, 2, 16385));
    assert_int_equal(bench.helpers.pieces, 9);
    assert_true(is_right(&bench, 64, 4096));
    assert_int_equal(bench.helpers.pieces, 8);
    bench_fini(&bench);
}

UNIT_TEST(test_small_work_is_not_offered)
{
    struct bench bench;

    bench_init(&bench);
    assert_true(is_right(&bench, 2, 1));
    assert_true(is_right(&bench, 2, 4095));
    assert_int_equal(bench.helpers.calls, 0);
    bench_fini(&bench);
}

UNIT_TEST(test_more_operands_than_a_piece_takes_are_not_offered)
{
    struct bench bench;

    bench_init(&bench);
    assert_true(is_right(&bench, 65, COUNT_MAX));
    assert_int_equal(bench.helpers.calls, 0);
    bench_fini(&bench);
}

UNIT_TEST(test_without_help_it_is_done_all_the_same)
{
    struct bench bench;

    bench_init(&bench);
    bench.helpers.refuse = true;
    assert_true(is_right(&bench, 3, COUNT_MAX));
    assert_int_equal(bench.helpers.calls, 1);
    bench.env.share = NULL;
    assert_true(is_right(&bench, 3, COUNT_MAX));
    assert_int_equal(bench.helpers.calls, 1);
    bench_fini(&bench);
}
