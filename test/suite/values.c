/*
 * Allreduce: every type, every reduction, small and large counts, in place and out of
 * place, scaled, with infinities and NaNs; every bit as the definition says.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/batch/reference.h"
#include "test/suite/flight.h"
#include "test/suite/gpu.h"
#include "test/suite/suite.h"

static const tutti_dtype dtypes[] = { TUTTI_UINT8, TUTTI_INT8, TUTTI_UINT16,
    TUTTI_INT16, TUTTI_UINT32, TUTTI_INT32, TUTTI_UINT64, TUTTI_INT64, TUTTI_FLOAT16,
    TUTTI_BFLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_BOOL };
static const tutti_reduce_op ops[] = { TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MIN, TUTTI_MAX,
    TUTTI_PRODUCT, TUTTI_SET_AVERAGE };
static const size_t counts[] = { 0, 1, 2, 3, 17, 1000, 65537 };

#define DTYPE_COUNT (sizeof dtypes / sizeof *dtypes)
#define OP_COUNT (sizeof ops / sizeof *ops)
#define COUNT_COUNT (sizeof counts / sizeof *counts)

static struct operation allreduce_of(
        struct pattern pattern, size_t count, bool in_place)
{
    return (struct operation){ .collective = TUTTI_ALLREDUCE,
        .pattern = pattern,
        .scales = { 1, 1 },
        .count = (int64_t)count,
        .row_count = 1,
        .in_place = in_place };
}

static void one_pair(tutti *t, struct checks *c, struct pattern pattern)
{
    struct operation operations[2 * COUNT_COUNT];
    size_t n = 0;

    for (size_t i = 0; i < 2 * COUNT_COUNT; i++) {
        const size_t count = counts[i / 2];

        /* Long tensors for one reduction of each type: the others cut them alike. */
        if (count > 1000 && pattern.op != TUTTI_SUM && pattern.dtype != TUTTI_BOOL) {
            continue;
        }
        pattern.salt = (uint32_t)i;
        operations[n++] = allreduce_of(pattern, count, i % 2 != 0);
    }
    operations_run(t, c, operations, n);
}

static void every_pair(tutti *t, struct checks *c)
{
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        for (size_t o = 0; o < OP_COUNT; o++) {
            checks_step(c, tutti_dtype_name(dtypes[d]));
            if (reference_accepts(dtypes[d], ops[o])) {
                one_pair(t, c, (struct pattern){ .dtype = dtypes[d], .op = ops[o] });
            }
        }
    }
}

static void large_tensors(tutti *t, struct checks *c)
{
    static const struct pattern patterns[] = { { TUTTI_FLOAT32, TUTTI_SUM, 100 },
        { TUTTI_BFLOAT16, TUTTI_AVERAGE, 101 }, { TUTTI_INT8, TUTTI_MAX, 102 } };
    struct operation operations[3];

    checks_step(c, "large tensors");
    for (size_t i = 0; i < 3; i++) {
        operations[i] = allreduce_of(patterns[i], (size_t)1 << 20, i % 2 == 0);
    }
    operations_run(t, c, operations, 3);
}

static void scaled_tensors(tutti *t, struct checks *c)
{
    static const struct scales factors[] = { { 0.5, 1 }, { 1, 3 }, { 1.0 / 3, 0.1 },
        { -2, 0 } };
    static const tutti_reduce_op scaled_ops[] = { TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MAX };
    struct operation operations[sizeof factors / sizeof *factors * 3];
    const size_t n = sizeof operations / sizeof *operations;

    checks_step(c, "scale factors");
    for (tutti_dtype dtype = TUTTI_FLOAT16; dtype <= TUTTI_FLOAT64; dtype++) {
        for (size_t i = 0; i < n; i++) {
            const struct pattern pattern = { dtype, scaled_ops[i % 3],
                (uint32_t)(200 + i) };

            operations[i] = allreduce_of(pattern, 1000, i % 2 == 0);
            operations[i].scales = factors[i / 3];
        }
        operations_run(t, c, operations, n);
    }
}

/* Sums of -1 ... -n and, where n does not divide them, quotients that are cut. */
static void negative_averages(tutti *t, struct checks *c)
{
    const int n = c->size;
    int8_t bytes[2] = { (int8_t)(-1 - c->rank), (int8_t)(c->rank == 0 ? -1 : 0) };
    int16_t words[2] = { bytes[0], bytes[1] };
    int32_t ints[2] = { bytes[0], bytes[1] };
    int64_t longs[2] = { bytes[0], bytes[1] };
    const int mean = -((n + 1) / 2);
    const int rest = n == 1 ? -1 : 0;

    checks_step(c, "negative averages");
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "mean 8", bytes, bytes, 2, TUTTI_INT8, TUTTI_AVERAGE, NULL));
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "mean 16", words, words, 2, TUTTI_INT16, TUTTI_AVERAGE, NULL));
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "mean 32", ints, ints, 2, TUTTI_INT32, TUTTI_AVERAGE, NULL));
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "mean 64", longs, longs, 2, TUTTI_INT64, TUTTI_AVERAGE, NULL));
    EXPECT(c, bytes[0] == mean && bytes[1] == rest);
    EXPECT(c, words[0] == mean && words[1] == rest);
    EXPECT(c, ints[0] == mean && ints[1] == rest);
    EXPECT(c, longs[0] == mean && longs[1] == rest);
}

/*
 * Of each four elements one is NaN on some rank, one infinite on some rank, and one
 * infinite on two ranks with both signs.
 */
static void put_specials(
        tutti_dtype dtype, int rank, int size, void *data, size_t count)
{
    const size_t bytes = tutti_dtype_size(dtype);

    for (size_t i = 0; i < count; i++) {
        const int chosen = (int)(i / 4 % (size_t)size);
        const bool is_next = rank == (chosen + 1) % size;
        void *element = (char *)data + i * bytes;

        if (i % 4 == 0 && rank == chosen) {
            reference_store_real(dtype, (double)NAN, element);
        } else if (i % 4 == 1 && rank == chosen) {
            reference_store_real(dtype, (double)INFINITY, element);
        } else if (i % 4 == 2 && (rank == chosen || is_next)) {
            reference_store_real(
                    dtype, (double)(is_next ? -INFINITY : INFINITY), element);
        }
    }
}

static void one_special(tutti *t, struct checks *c, const struct pattern *pattern)
{
    const size_t count = 4 * 64;
    const size_t bytes = count * tutti_dtype_size(pattern->dtype);
    const void **inputs = must_alloc((size_t)c->size, sizeof *inputs);
    int *ranks = must_alloc((size_t)c->size, sizeof *ranks);
    char *memory = must_alloc((size_t)c->size + 1, bytes);
    char *expected = memory + (size_t)c->size * bytes;
    struct buffer input;
    struct buffer output;

    buffer_init(&input, bytes);
    buffer_init(&output, bytes);
    for (int r = 0; r < c->size; r++) {
        ranks[r] = r;
        inputs[r] = memory + (size_t)r * bytes;
        pattern_fill(pattern, r, memory + (size_t)r * bytes, count);
        put_specials(pattern->dtype, r, c->size, memory + (size_t)r * bytes, count);
    }
    buffer_put(&input, 0, inputs[c->rank], bytes, NULL);
    reference_reduce(&(struct reduction){ .dtype = pattern->dtype,
                             .op = pattern->op,
                             .prescale = 1,
                             .postscale = 1,
                             .n = c->size,
                             .inputs = inputs,
                             .ranks = ranks,
                             .folds = reference_folds() },
            expected, count);
    EXPECT_OK(c,
            tutti_allreduce(t, "specials", input.data, output.data, (int64_t)count,
                    pattern->dtype, pattern->op, NULL));
    EXPECT(c, reference_equal(pattern->dtype, output.data, expected, count));
    EXPECT(c, buffer_is_intact(&input) && buffer_is_intact(&output));
    buffer_fini(&input);
    buffer_fini(&output);
    free(ranks);
    free(memory);
    free(inputs);
}

static void specials(tutti *t, struct checks *c)
{
    checks_step(c, "infinities and NaNs");
    for (tutti_dtype dtype = TUTTI_FLOAT16; dtype <= TUTTI_FLOAT64; dtype++) {
        for (size_t o = 0; o < OP_COUNT; o++) {
            one_special(t, c,
                    &(struct pattern){ .dtype = dtype, .op = ops[o], .salt = 300 });
        }
    }
}

void suite_values(tutti *t, struct checks *c)
{
    every_pair(t, c);
    large_tensors(t, c);
    scaled_tensors(t, c);
    negative_averages(t, c);
    specials(t, c);
}
