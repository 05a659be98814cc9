/*
 * The backends op_p2p and op_mpi_vendor, over MPI, between real processes and without the
 * core.
 */
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "check.h"
#include "meet.h"
#include "ops/mpi/vendor.h"
#include "ops/p2p/p2p.h"
#include "p2p_wire.h"
#include "ranks.h"
#include "test/batch/reference.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const int64_t counts[] = { 1, 2, 3, 17, 1000, 4096, 65537 };

static const tutti_reduce_op reductions[] = { TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MIN,
    TUTTI_MAX, TUTTI_PRODUCT };

static const tutti_collective reducing[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
    TUTTI_REDUCESCATTER };

static const tutti_collective exchanges[] = { TUTTI_ALLGATHER, TUTTI_ALLTOALL,
    TUTTI_GATHER, TUTTI_SCATTER };

/* With more ranks than this only what takes many ranks is tested. */
#define LARGE_SET 8

/* Small chunks, so that even the small counts go through the pipeline. */
static const struct setup small_chunks = {
    .backend = &op_p2p, .gather_bytes = 256, .chunk_bytes = 4096
};

static const struct setup vendor = { .backend = &op_mpi_vendor, .chunk_bytes = 4096 };

static struct batch_order order_of(
        const struct op_set *set, tutti_collective collective, tutti_dtype dtype)
{
    return (struct batch_order){ .set = set,
        .operation = { .collective = collective, .pattern.dtype = dtype } };
}

/* Every count, in place and out of place in turn; parts are equal, or of all sizes. */
static void run_counts(const struct bench *bench, struct batch_order *order)
{
    for (size_t c = 0; c < LENGTH(counts); c++) {
        struct operation *o = &order->operation;

        o->count = counts[c];
        o->in_place = order->sequence % 2 == 0;
        o->form = order->sequence % 3 == 0 ? FORM_EQUAL : FORM_LISTED;
        o->is_sparse = true;
        if (bench_cuts_into_few(
                    bench, (size_t)counts[c] * tutti_dtype_size(o->pattern.dtype))) {
            bench_run(bench, order);
        }
        order->sequence++;
    }
}

static void check_all_reductions(tutti_collective collective, const struct setup *setup)
{
    struct bench bench;
    uint64_t sequence = 0;

    bench_open(&bench, setup);
    for (int i = 0; i < (TUTTI_FLOAT8_E5M2 + 1) * (int)LENGTH(reductions); i++) {
        const tutti_dtype dtype = (tutti_dtype)(i / (int)LENGTH(reductions));
        struct batch_order order = order_of(&bench.world, collective, dtype);

        order.operation.pattern.op = reductions[i % (int)LENGTH(reductions)];
        order.operation.root = bench.size / 2;
        order.sequence = sequence;
        if (dtype_is_float(dtype)) {
            order.operation.scales = (struct scales){ 0.3, 1.7 };
        }
        if (reference_accepts(dtype, order.operation.pattern.op)) {
            run_counts(&bench, &order);
        }
        sequence = order.sequence;
    }
    bench_close(&bench);
}

static void test_every_type_and_reduction_gives_the_canonical_bits(void)
{
    static const struct setup doubling = {
        .backend = &op_p2p, .algorithm = CONFIG_ALGORITHM_DOUBLING, .chunk_bytes = 4096
    };

    check_all_reductions(TUTTI_ALLREDUCE, &doubling);
    for (size_t c = 0; c < LENGTH(reducing); c++) {
        check_all_reductions(reducing[c], &small_chunks);
    }
}

static void test_the_bits_do_not_depend_on_algorithm_and_chunk(void)
{
    static const enum config_algorithm algorithms[] = { CONFIG_ALGORITHM_AUTO,
        CONFIG_ALGORITHM_GATHER, CONFIG_ALGORITHM_DIRECT, CONFIG_ALGORITHM_DOUBLING };
    static const size_t chunks[] = { 1, 1000, 65536, (size_t)1 << 30 };

    for (size_t i = 0; i < LENGTH(algorithms) * LENGTH(chunks); i++) {
        const struct setup setup = { .backend = &op_p2p,
            .algorithm = algorithms[i / LENGTH(chunks)],
            .gather_bytes = 8192,
            .chunk_bytes = chunks[i % LENGTH(chunks)] };
        struct bench bench;
        struct batch_order order =
                order_of(&bench.world, TUTTI_ALLREDUCE, TUTTI_FLOAT32);

        bench_open(&bench, &setup);
        for (size_t c = 0; c < LENGTH(reducing); c++) {
            order.operation.collective = reducing[c];
            run_counts(&bench, &order);
        }
        bench_close(&bench);
    }
}

static void test_every_root(void)
{
    static const struct {
        tutti_collective collective;
        tutti_dtype dtype;
    } kinds[] = { { TUTTI_REDUCE, TUTTI_BFLOAT16 },
        { TUTTI_REDUCESCATTER, TUTTI_BFLOAT16 }, /* other parts each time */
        { TUTTI_BROADCAST, TUTTI_FLOAT8_E4M3 }, { TUTTI_BROADCAST, TUTTI_FLOAT64 },
        { TUTTI_BROADCAST, TUTTI_BOOL } };
    struct bench bench;
    uint64_t sequence = 0;

    bench_open(&bench, &small_chunks);
    for (int i = 0; i < bench.size * (int)LENGTH(kinds); i++) {
        const size_t kind = (size_t)i % LENGTH(kinds);
        struct batch_order order =
                order_of(&bench.world, kinds[kind].collective, kinds[kind].dtype);

        order.operation.root = i / (int)LENGTH(kinds);
        order.sequence = sequence;
        run_counts(&bench, &order);
        sequence = order.sequence;
    }
    bench_close(&bench);
}

static void test_large_batches(void)
{
    static const struct operation operations[] = { { .collective = TUTTI_ALLREDUCE,
                                                           .pattern.dtype =
                                                                   TUTTI_FLOAT32,
                                                           .in_place = true },
        { .collective = TUTTI_ALLREDUCE,
                .pattern = { TUTTI_FLOAT16, TUTTI_AVERAGE, 0 } },
        { .collective = TUTTI_BROADCAST, .pattern.dtype = TUTTI_FLOAT16 } };
    const struct setup setup = {
        .backend = &op_p2p, .gather_bytes = 8192, .chunk_bytes = 262144
    };
    struct bench bench;
    struct batch_order order = { .set = &bench.world };

    bench_open(&bench, &setup);
    for (size_t i = 0; i < LENGTH(operations); i++) {
        order.operation = operations[i];
        order.operation.root = bench.size - 1;
        order.operation.count = 3000000;
        order.sequence = i;
        bench_run(&bench, &order);
    }
    bench_close(&bench);
}

static void test_large_parts(void)
{
    struct bench bench;

    bench_open(&bench, &small_chunks);
    for (size_t i = 0; i < 2 * LENGTH(exchanges); i++) {
        struct batch_order order =
                order_of(&bench.world, exchanges[i % LENGTH(exchanges)], TUTTI_UINT8);

        order.sequence = i;
        order.operation.form = i < LENGTH(exchanges) ? FORM_LISTED : FORM_UNKNOWN;
        order.operation.count = (int64_t)3 << 20;
        bench_run(&bench, &order);
    }
    bench_close(&bench);
}

/* Order number i of all kinds of exchanges. */
static struct batch_order mixed_exchange(const struct op_set *set, int i)
{
    static const int64_t mosts[] = { 1, 100, 5000, 40000, 200000 };
    struct batch_order order = order_of(
            set, exchanges[(size_t)(i + i / 8) % LENGTH(exchanges)], TUTTI_UINT8);

    order.sequence = (uint64_t)i;
    order.run_count = i % 2 == 0 ? 1 : 1 + (size_t)i % BATCH_RUNS_MAX;
    order.operation.root = i % set->size;
    order.operation.form = i % 3 == 0 ? FORM_UNKNOWN : FORM_LISTED;
    order.operation.is_sparse = true;
    order.operation.in_place = i % 4 == 1;
    for (size_t run = 0; run < order.run_count; run++) {
        order.counts[run] = set->size > LARGE_SET ? 6000 : mosts[(i / 2) % 5];
    }
    return order;
}

/* Order number i of a mix of collectives, types and sizes. */
static struct batch_order mixed_order(const struct op_set *set, int i)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_INT8, TUTTI_BFLOAT16 };
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_BROADCAST,
        TUTTI_REDUCE, TUTTI_REDUCESCATTER };
    struct batch_order order = order_of(set, collectives[i % 11 % 4], dtypes[i % 3]);

    order.sequence = (uint64_t)i;
    order.operation.pattern.op = i % 2 == 0 ? TUTTI_SUM : TUTTI_MAX;
    order.operation.root = i % set->size;
    order.operation.count = counts[(size_t)i % LENGTH(counts)];
    order.operation.form = FORM_LISTED;
    order.operation.is_sparse = true;
    order.operation.in_place = i % 5 < 2;
    return order;
}

static void run_orders(order_maker make, int count)
{
    struct bench bench;

    bench_open(&bench, &small_chunks);
    for (int i = 0; i < count; i++) {
        const struct batch_order order = make(&bench.world, i);

        bench_run(&bench, &order);
    }
    bench_close(&bench);
}

/* Sets that share ranks, one of them in reverse order; ranks start them differently. */
static void test_overlapping_sets_do_not_disturb_each_other(void)
{
    enum {
        SETS = 2,
        BATCHES = SETS * OP_INFLIGHT_MAX
    };
    struct bench bench;
    struct batch batches[BATCHES];
    struct op_set sets[SETS];
    int reversed[BATCH_RANKS_MAX];
    int started = 0;

    bench_open(&bench, &small_chunks);
    for (int i = 0; i < bench.size; i++) {
        reversed[i] = bench.size - 1 - i;
    }
    sets[0] = (struct op_set){ .index = OP_SETS_MAX - 1,
        .rank = bench.rank < bench.size - 1 ? bench.rank : -1,
        .size = bench.size - 1,
        .world_ranks = bench.identity };
    sets[1] = (struct op_set){ .index = 5,
        .rank = bench.size - 1 - bench.rank,
        .size = bench.size,
        .world_ranks = reversed };
    for (int k = 0; k < BATCHES; k++) {
        const struct op_set *set = &sets[(k + bench.rank) % SETS];

        if (set->size > 0 && set->rank >= 0) {
            const struct batch_order order = mixed_order(set, k / SETS);

            bench_make(&bench, &batches[started], &order);
            bench_start(&bench, &batches[started++]);
        }
    }
    bench_finish(&bench, batches, started);
    bench_close(&bench);
}

/* The last rank is left out of batches 6 to 99, as one that joined, and comes back. */
static void test_a_rank_may_be_left_out(void)
{
    struct bench bench;
    struct op_set fewer;

    bench_open(&bench, &small_chunks);
    fewer = bench.world;
    fewer.size--;
    for (int i = 0; i < 300; i++) {
        const bool left_out = i % 150 >= 6 && i % 150 < 100;
        const struct op_set *set = left_out ? &fewer : &bench.world;

        if (set->rank < set->size) {
            const struct batch_order order =
                    i % 2 == 0 ? mixed_order(set, i) : mixed_exchange(set, i);

            bench_run(&bench, &order);
        }
    }
    bench_close(&bench);
}

static void test_a_set_of_one_rank(void)
{
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_BROADCAST,
        TUTTI_REDUCE, TUTTI_REDUCESCATTER };
    struct bench bench;
    const struct op_set alone = { .index = 9, .size = 1, .world_ranks = &bench.rank };
    struct batch_order order = order_of(&alone, TUTTI_ALLREDUCE, TUTTI_FLOAT32);

    bench_open(&bench, &small_chunks);
    order.operation.pattern.op = TUTTI_AVERAGE;
    order.operation.scales = (struct scales){ 2, 3 };
    for (size_t c = 0; c < LENGTH(collectives); c++) {
        order.operation.collective = collectives[c];
        run_counts(&bench, &order);
    }
    bench_close(&bench);
}

static void test_steady_state_allocates_nothing(void)
{
    enum {
        KINDS = 24
    };
    struct bench bench;
    uint64_t spent = 0;

    bench_open(&bench, &small_chunks);
    for (int i = 0; i < 6 * KINDS; i++) {
        struct batch_order order = i % 2 == 0
                ? mixed_order(&bench.world, i / 2 % KINDS)
                : mixed_exchange(&bench.world, i / 2 % KINDS);
        struct batch batch;
        uint64_t before;

        order.sequence = (uint64_t)i;
        order.operation.pattern.salt = 1 + (uint32_t)i % (2 * KINDS); /* equal sizes */
        bench_make(&bench, &batch, &order);
        before = mem_alloc_count();
        bench_start(&bench, &batch);
        CHECK(bench_wait(&bench, &batch) == TUTTI_OK);
        /* Each place() allocates an output. */
        spent += i >= 4 * KINDS ? mem_alloc_count() - before - batch.placed : 0;
        CHECK(batch_error(&batch) == NULL);
        batch_free(&batch);
    }
    CHECK_SAYS(spent == 0, "%d allocations", (int)spent);
    bench_close(&bench);
}

static void test_a_failure_to_place_ends_the_batch(void)
{
    struct bench bench = { 0 };
    struct batch_order order = order_of(&bench.world, TUTTI_ALLGATHER, TUTTI_UINT8);
    struct batch batch;

    bench_open(&bench, &small_chunks);
    order.operation.form = FORM_UNKNOWN;
    order.run_count = 3;
    order.counts[0] = order.counts[1] = order.counts[2] = 100;
    bench_make(&bench, &batch, &order);
    batch.fail_place_at = 2;
    bench_start(&bench, &batch);
    CHECK(bench_wait(&bench, &batch) == TUTTI_ERR_NO_MEMORY);
    while (!bench.backend->cancel(bench.state, batch.task)) {
        (void)sched_yield();
    }
    batch_free(&batch);
    drain(bench.comm);
    bench_close(&bench);
}

/* Cancelled with messages under way: must return; a second time does nothing. */
void check_cancel(const struct setup *setup, const struct operation *operation)
{
    struct bench bench;
    const struct batch_order order = { .set = &bench.world, .operation = *operation };
    struct batch batch;

    bench_open(&bench, setup);
    bench_make(&bench, &batch, &order);
    if (bench.rank == 0) {
        bench_start(&bench, &batch);
        (void)bench.backend->cancel(bench.state, batch.task);
        (void)bench.backend->cancel(bench.state, batch.task);
        /* A rank's own part may have been copied. */
        CHECK(op_is_exchange(batch.op.collective) || batch_touched(&batch) == NULL);
    }
    batch_free(&batch);
    drain(bench.comm);
    bench_close(&bench);
}

static void test_cancel_returns(void)
{
    static const struct operation operations[] = {
        { .collective = TUTTI_ALLREDUCE, .pattern.dtype = TUTTI_FLOAT32, .count = 100 },
        { .collective = TUTTI_ALLTOALL, .form = FORM_LISTED, .count = 100 },
        { .collective = TUTTI_ALLTOALL, .form = FORM_UNKNOWN, .count = 100 },
    };

    for (size_t i = 0; i < LENGTH(operations); i++) {
        check_cancel(&small_chunks, &operations[i]);
    }
}

/* ------------------------------------------------------------------- vendor */

static void test_vendor_takes_only_what_it_does_as_promised(void)
{
    struct bench bench;
    struct op_set other;
    struct op_batch batch = {
        .run_count = 1, .count = 1, .collective = TUTTI_ALLREDUCE
    };

    bench_open(&bench, &vendor);
    batch.set = &bench.world;
    batch.dtype = TUTTI_FLOAT32;
    CHECK(bench.backend->accepts(bench.state, &batch));
    batch.op = TUTTI_MAX;
    CHECK(!bench.backend->accepts(bench.state, &batch));
    batch.dtype = TUTTI_INT32;
    CHECK(bench.backend->accepts(bench.state, &batch));
    batch.op = TUTTI_AVERAGE;
    CHECK(!bench.backend->accepts(bench.state, &batch));
    batch.op = TUTTI_SUM;
    CHECK(bench.backend->accepts(bench.state, &batch));
    batch.dtype = TUTTI_INT16;
    CHECK(!bench.backend->accepts(bench.state, &batch));
    batch.dtype = TUTTI_BFLOAT16;
    CHECK(!bench.backend->accepts(bench.state, &batch));
    batch.collective = TUTTI_BROADCAST;
    CHECK(bench.backend->accepts(bench.state, &batch));
    other = bench.world;
    other.index = 1;
    batch.set = &other;
    CHECK(!bench.backend->accepts(bench.state, &batch));
    other.index = 0;
    other.size--; /* the world while a rank has joined */
    CHECK(!bench.backend->accepts(bench.state, &batch));
    batch.set = &bench.world;
    for (int i = TUTTI_BARRIER; i <= TUTTI_SCATTER; i++) {
        batch.collective = (tutti_collective)i;
        CHECK(!bench.backend->accepts(bench.state, &batch));
    }
    bench_close(&bench);
}

static void check_vendor_result(const struct bench *bench, struct batch_order *order)
{
    struct batch batch;

    bench_make(bench, &batch, order);
    if (bench->backend->accepts(bench->state, &batch.op)) {
        bench_start(bench, &batch);
        bench_finish(bench, &batch, 1);
        order->sequence++;
    } else {
        batch_free(&batch);
    }
}

/* Integers of any bits; floats whose sums are exact, as the order of them is MPI's. */
static void test_vendor_reduces_all_that_it_takes(void)
{
    struct bench bench = { 0 };
    struct batch_order order = order_of(&bench.world, TUTTI_ALLREDUCE, TUTTI_UINT8);
    bool means_are_exact;

    bench_open(&bench, &vendor);
    means_are_exact = (bench.size & (bench.size - 1)) == 0;
    order.operation.count = 5000;
    for (int i = 0; i < (TUTTI_FLOAT8_E5M2 + 1) * (int)LENGTH(reductions); i++) {
        order.operation.pattern.dtype = (tutti_dtype)(i / (int)LENGTH(reductions));
        order.operation.pattern.op = reductions[i % (int)LENGTH(reductions)];
        order.operation.in_place = i % 2 == 0;
        if (order.operation.pattern.op != TUTTI_AVERAGE || means_are_exact) {
            check_vendor_result(&bench, &order);
        }
    }
    CHECK_SAYS(order.sequence >= 20, "only %d were taken", (int)order.sequence);
    bench_close(&bench);
}

/* Each rank by itself decides whether its output is its input. */
static void test_vendor_lets_only_some_ranks_work_in_place(void)
{
    struct bench bench;

    bench_open(&bench, &vendor);
    for (int i = 0; i < 4 << bench.size; i++) {
        struct batch_order order = order_of(&bench.world,
                i % 2 == 0 ? TUTTI_ALLREDUCE : TUTTI_BROADCAST, TUTTI_INT32);

        order.sequence = (uint64_t)i;
        order.operation.in_place = (i / 4 >> bench.rank & 1) != 0;
        order.operation.root = i / 4 % bench.size;
        order.operation.count = i / 2 % 2 == 0 ? 1 : 20000; /* by other algorithms */
        check_vendor_result(&bench, &order);
    }
    bench_close(&bench);
}

/* Order number i of a mix that the MPI library takes. */
static struct batch_order vendor_order(const struct op_set *set, int i)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_INT32, TUTTI_FLOAT64 };
    struct batch_order order = mixed_order(set, i);
    struct operation *o = &order.operation;

    o->collective = i % 4 == 3 ? TUTTI_BROADCAST : TUTTI_ALLREDUCE;
    o->pattern = (struct pattern){ .dtype = dtypes[i % 3], .op = TUTTI_SUM };
    if (dtype_is_float(o->pattern.dtype)) {
        o->scales = (struct scales){ i % 5 == 0 ? 2 : 1, i % 5 == 1 ? 0.5 : 1 };
    }
    return order;
}

/* --------------------------------------------------------------------- main */

static void test_sets_of_any_size(void)
{
    test_every_type_and_reduction_gives_the_canonical_bits();
    test_the_bits_do_not_depend_on_algorithm_and_chunk();
    test_every_root();
    test_large_batches();
    test_large_parts();
    run_orders(mixed_exchange, 240);
    run_at_once(&small_chunks, mixed_order, 8, 3);
    run_at_once(&small_chunks, mixed_exchange, 8, 3);
    test_overlapping_sets_do_not_disturb_each_other();
    test_a_rank_may_be_left_out();
    test_a_set_of_one_rank();
    test_steady_state_allocates_nothing();
    test_a_failure_to_place_ends_the_batch();
    test_cancel_returns();
    test_vendor_takes_only_what_it_does_as_promised();
    pattern_set_exact(true);
    test_vendor_reduces_all_that_it_takes();
    test_vendor_lets_only_some_ranks_work_in_place();
    /* With scaling passes, which make batches ready at different times. */
    run_at_once(&vendor, vendor_order, 1, 24);
    pattern_set_exact(false);
    test_a_narrow_wire();
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE;
    int rank = 0;
    int size = 0;

    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size <= LARGE_SET) {
        test_sets_of_any_size();
    } else {
        run_orders(mixed_exchange, 24); /* of more ranks than a rank serves at once */
    }
    meet(MPI_COMM_WORLD);
    (void)MPI_Finalize();
    if (rank == 0) {
        (void)printf("ok\n");
    }
    return 0;
}
