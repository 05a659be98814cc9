/*
 * Sums of float32 that travel in 16 bits (wire_dtype). Every bit is compared with the definition,
 * in which messages do not occur, and every value with the bound of docs/numerics.md.
 */
#include "p2p_wire.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "ops/p2p/p2p.h"
#include "ops/reduce/half.h"
#include "ops/reduce/reduce.h"
#include "test/batch/reference.h"

enum {
    GATHER_BYTES = 64,
    SETS = 8
};

static const int64_t counts[] = { 3, 17, 31, 1000, 4099, 65537 };
#define COUNTS (sizeof counts / sizeof *counts)

static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
    TUTTI_REDUCESCATTER };
#define COLLECTIVES (sizeof collectives / sizeof *collectives)

/* What the elements of the open backend travel as. */
static enum config_wire_dtype wire_in_use;

static struct setup setup_of(enum config_wire_dtype wire, size_t link_bytes)
{
    wire_in_use = wire;
    return (struct setup){ .backend = &op_p2p,
        .gather_bytes = GATHER_BYTES,
        .chunk_bytes = 4096,
        .link_bytes = link_bytes,
        .wire = wire };
}

/* ------------------------------------------------------------ the definition */

/* Who reduces an element; it depends on nothing but the batch. */
static int owner_of(const struct op_batch *batch, size_t element)
{
    const size_t size = (size_t)batch->set->size;
    size_t share;

    if (batch->collective == TUTTI_REDUCESCATTER) {
        return batch->set->rank; /* who gets it */
    }
    if (batch->collective == TUTTI_REDUCE && size == 2) {
        return batch->root;
    }
    share = size_align(((batch->count - 1) / size + 1) * sizeof(float), 64);
    return (int)(element / (share / sizeof(float)));
}

static float as_it_arrives(float value)
{
    return wire_in_use == CONFIG_WIRE_DTYPE_BFLOAT16
            ? bfloat_to_float(bfloat_from_float(value))
            : half_to_float(half_from_float(value));
}

/* The bound of docs/numerics.md. */
static void check_error(const struct op_batch *batch, const float *operands, int owner,
        bool travels, float result)
{
    /* What a rounding may add to an error, relative to what is rounded. */
    const double u = wire_in_use == CONFIG_WIRE_DTYPE_BFLOAT16 ? 0x1p-8 : 0x1p-11;
    const double divisor = batch->op == TUTTI_AVERAGE ? batch->divisor : 1;
    const double factor = batch->prescale * batch->postscale / divisor;
    double exact = 0;
    double rounded = 0; /* magnitudes of all operands that are */
    double magnitude = 0; /* of all */
    double bound;

    for (int k = 0; k < batch->set->size; k++) {
        exact += factor * (double)operands[k];
        magnitude += fabs(factor * (double)operands[k]);
        rounded += k == owner ? 0 : fabs(factor * (double)operands[k]);
    }
    bound = u * rounded + (travels ? u * (fabs(exact) + u * rounded) : 0);
    bound += (batch->set->size + 3) * magnitude / (1 << 23);
    CHECK_SAYS(fabs((double)result - exact) <= bound, "%g, not %g within %g",
            (double)result, exact, bound);
}

/* One element, from what the members have of it. */
static float rounded_sum(
        const struct op_batch *batch, const float *exact, size_t element)
{
    const struct reduce_spec spec = reduce_spec_of(batch);
    const int owner = owner_of(batch, element);
    const bool travels = batch->collective == TUTTI_ALLREDUCE ||
            (batch->collective == TUTTI_REDUCE && owner != batch->root);
    const void *operands[BATCH_RANKS_MAX];
    float arrived[BATCH_RANKS_MAX];
    float sum = 0;

    for (int k = 0; k < batch->set->size; k++) {
        arrived[k] = k == owner ? exact[k] : as_it_arrives(exact[k]);
        operands[k] = &arrived[k];
    }
    reduce_tree(&spec, operands, batch->set->size, (void *[]){ &sum }, 1, 1);
    sum = travels ? as_it_arrives(sum) : sum;
    check_error(batch, exact, owner, travels, sum);
    return sum;
}

/* What a run on a wire of 16 bits gives this member. */
static void expect_rounded(const struct batch *batch, size_t run, void *output)
{
    const struct op_batch *op = &batch->op;
    const size_t count = batch->runs[run].count;
    const bool is_cut = op->collective == TUTTI_REDUCESCATTER;
    const struct op_part part = batch->memory[run].sends[op->set->rank];
    const size_t first = is_cut ? part.offset / sizeof(float) : 0;
    const size_t wanted = is_cut ? part.bytes / sizeof(float) : count;
    float *inputs = must_alloc((size_t)op->set->size * count, sizeof *inputs);
    float *outputs = output;

    for (int k = 0; k < op->set->size; k++) {
        pattern_fill(&batch->memory[run].operation.pattern, k,
                inputs + (size_t)k * count, count);
    }
    for (size_t i = 0; i < wanted; i++) {
        float exact[BATCH_RANKS_MAX];

        for (int k = 0; k < op->set->size; k++) {
            exact[k] = inputs[(size_t)k * count + first + i];
        }
        outputs[i] = rounded_sum(op, exact, first + i);
    }
    free(inputs);
}

/* --------------------------------------------------------------------- tests */

/* Whether elements of such an order are rounded; of a REDUCESCATTER of equal parts. */
static bool is_narrow(const struct bench *bench, const struct batch_order *order)
{
    const struct operation *o = &order->operation;

    return o->pattern.dtype == TUTTI_FLOAT32 &&
            (o->pattern.op == TUTTI_SUM || o->pattern.op == TUTTI_AVERAGE) &&
            o->count > GATHER_BYTES / (int64_t)sizeof(float) && order->set->size > 1 &&
            bench->env.link.message_bytes > 0 &&
            wire_in_use != CONFIG_WIRE_DTYPE_FLOAT32;
}

/* Every count, in place and out of place in turn. */
static void run_counts(const struct bench *bench, struct batch_order *order)
{
    for (size_t c = 0; c < COUNTS; c++) {
        order->operation.count = counts[c];
        order->operation.in_place = order->sequence % 2 == 0;
        order->expect = is_narrow(bench, order) ? expect_rounded : NULL;
        if (bench_cuts_into_few(bench,
                    (size_t)counts[c] *
                            tutti_dtype_size(order->operation.pattern.dtype))) {
            bench_run(bench, order);
        }
        order->sequence++;
    }
}

/* What travels narrow, and what must not. */
static void check_wire(enum config_wire_dtype wire, size_t link_bytes)
{
    const struct setup setup = setup_of(wire, link_bytes);
    struct bench bench;

    bench_open(&bench, &setup);
    for (int root = 0; root < bench.size; root++) {
        struct batch_order order = { .set = &bench.world,
            .sequence = (uint64_t)root * 1000,
            .operation = { .collective = collectives[root % (int)COLLECTIVES],
                    .pattern = { .dtype = TUTTI_FLOAT32, .op = TUTTI_AVERAGE },
                    .scales = { 0.3, 1.7 },
                    .root = root } };
        struct operation *o = &order.operation;

        run_counts(&bench, &order);
        o->pattern.op = root % 2 == 0 ? TUTTI_PRODUCT : TUTTI_MIN;
        run_counts(&bench, &order);
        o->pattern.op = TUTTI_SUM;
        o->pattern.dtype = root % 2 == 0 ? TUTTI_BFLOAT16 : TUTTI_FLOAT64;
        run_counts(&bench, &order);
        o->pattern.dtype = TUTTI_FLOAT32;
        o->scales = (struct scales){ 1, 1 };
        for (size_t c = 0; c < COLLECTIVES; c++) {
            o->collective = collectives[c];
            run_counts(&bench, &order);
        }
    }
    bench_close(&bench);
}

/* What is expected knows nothing of messages: their length changes no bit. */
static void test_sums_travel_in_16_bits_between_nodes(void)
{
    static const size_t link_bytes[] = { 64, 1000, 16384, (size_t)1 << 20 };

    for (size_t l = 0; l < sizeof link_bytes / sizeof *link_bytes; l++) {
        check_wire(CONFIG_WIRE_DTYPE_BFLOAT16, link_bytes[l]);
        check_wire(CONFIG_WIRE_DTYPE_FLOAT16, link_bytes[l]);
    }
    check_wire(CONFIG_WIRE_DTYPE_FLOAT32, 4096);
    check_wire(CONFIG_WIRE_DTYPE_BFLOAT16, 0); /* within a node */
}

/* Too large for float16 as an operand or as a sum, infinite, and no number: on all ranks. */
static void test_what_float16_cannot_hold_is_infinite(void)
{
    enum {
        COUNT = 5000
    };
    static const float values[] = { 1e5F, INFINITY, NAN, 60000.0F };
    const struct setup setup = setup_of(CONFIG_WIRE_DTYPE_FLOAT16, 4096);
    struct bench bench;
    const struct batch_order order = { .set = &bench.world,
        .operation = { .collective = TUTTI_ALLREDUCE,
                .pattern.dtype = TUTTI_FLOAT32,
                .count = COUNT } };
    struct batch batch;
    float input[COUNT];
    float output[COUNT];
    float first[COUNT];

    bench_open(&bench, &setup);
    bench_make(&bench, &batch, &order);
    for (int i = 0; i < COUNT; i++) {
        input[i] = values[i % 4];
    }
    batch.runs[0].input = input;
    batch.runs[0].output = output;
    bench_start(&bench, &batch);
    CHECK(bench_wait(&bench, &batch) == TUTTI_OK);
    for (int i = 0; i < COUNT && bench.size > 1; i++) {
        CHECK(i % 4 == 2 ? isnan(output[i]) : isinf(output[i]));
    }
    memcpy(first, output, sizeof first);
    CHECK(MPI_Bcast(first, COUNT, MPI_FLOAT, 0, bench.comm) == MPI_SUCCESS);
    CHECK(memcmp(first, output, sizeof first) == 0);
    batch_free(&batch);
    bench_close(&bench);
}

static struct batch_order mixed_order(const struct op_set *set, int i)
{
    const int turn = i / SETS;
    struct batch_order order = { .set = set,
        .operation = { .collective = collectives[turn % (int)COLLECTIVES],
                .pattern = { .dtype = TUTTI_FLOAT32,
                        .op = turn % 4 == 3 ? TUTTI_MAX : TUTTI_SUM },
                .root = turn % set->size,
                .count = counts[(size_t)(turn + i % SETS) % (COUNTS - 1)],
                .in_place = turn % 2 == 0 } };

    if (order.operation.pattern.op == TUTTI_SUM && set->size > 1 &&
            order.operation.count > GATHER_BYTES / (int64_t)sizeof(float)) {
        order.expect = expect_rounded;
    }
    return order;
}

/* Bits depend on who owns an element, which programs cannot know. */
static void test_a_narrow_wire_does_not_follow_ranks(void)
{
    for (int narrow = 0; narrow < 2; narrow++) {
        const struct setup setup =
                setup_of(CONFIG_WIRE_DTYPE_BFLOAT16, narrow != 0 ? 4096 : 0);
        struct bench bench;

        bench_open(&bench, &setup);
        CHECK(bench.backend->follows_ranks(bench.state, &bench.world) ==
                (narrow == 0 || bench.size == 1));
        bench_close(&bench);
    }
}

void test_a_narrow_wire(void)
{
    const struct setup setup = setup_of(CONFIG_WIRE_DTYPE_BFLOAT16, 512);
    const struct operation sum = {
        .collective = TUTTI_ALLREDUCE, .pattern.dtype = TUTTI_FLOAT32, .count = 100
    };

    run_at_once(&setup, mixed_order, SETS, 1);
    check_cancel(&setup, &sum);
    test_sums_travel_in_16_bits_between_nodes();
    test_what_float16_cannot_hold_is_infinite();
    test_a_narrow_wire_does_not_follow_ranks();
}
