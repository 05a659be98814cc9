/*
 * The MPI backends, op_mpi and op_mpi_vendor, between real processes and without the
 * core.
 */
#include <mpi.h>
#include <string.h>

#include "backend_driver.h"
#include "base/mem.h"
#include "base/status.h"
#include "check.h"
#include "meet.h"
#include "ops/mpi/mpi.h"

static const size_t counts[] = { 1, 2, 3, 17, 1000, 4096, 65537 };
#define COUNTS (sizeof counts / sizeof *counts)

static const tutti_reduce_op reductions[] = { TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MIN,
    TUTTI_MAX, TUTTI_PRODUCT };
#define REDUCTIONS (sizeof reductions / sizeof *reductions)

/* Small chunks, so that even the small counts go through the pipeline. */
static const struct setup small_chunks = {
    .backend = &op_mpi, .gather_bytes = 256, .chunk_bytes = 4096
};

/* Every count, in place and out of place in turn. */
static void run_counts(const struct bench *bench, struct order *order)
{
    for (size_t c = 0; c < COUNTS; c++) {
        order->count = counts[c];
        order->in_place = order->sequence % 2 == 0;
        run_one(bench, order);
        order->sequence++;
    }
}

/* Every reduction that the type has, scaled where it can be. */
static void run_reductions(const struct bench *bench, struct order *order)
{
    bool scaled = dtype_is_float(order->dtype);

    order->prescale = scaled ? 0.3 : 1;
    order->postscale = scaled ? 1.7 : 1;
    for (size_t r = 0; r < REDUCTIONS; r++) {
        order->op = reductions[r];
        if (reduce_is_supported(order->dtype, order->op)) {
            run_counts(bench, order);
        }
    }
}

static void check_all_reductions(tutti_collective collective, const struct setup *setup)
{
    struct bench bench;
    struct order order = { .collective = collective };

    bench_open(&bench, setup);
    order.set = &bench.world;
    order.root = bench.size / 2;
    for (int dtype = TUTTI_UINT8; dtype <= TUTTI_FLOAT8_E5M2; dtype++) {
        order.dtype = (tutti_dtype)dtype;
        run_reductions(&bench, &order);
    }
    bench_close(&bench);
}

static void test_every_type_and_reduction_gives_the_canonical_bits(void)
{
    static const struct setup doubling = {
        .backend = &op_mpi, .algorithm = CONFIG_ALGORITHM_DOUBLING, .chunk_bytes = 4096
    };

    check_all_reductions(TUTTI_ALLREDUCE, &small_chunks);
    check_all_reductions(TUTTI_ALLREDUCE, &doubling);
    check_all_reductions(TUTTI_REDUCE, &small_chunks);
    check_all_reductions(TUTTI_REDUCESCATTER, &small_chunks);
}

static void test_the_bits_do_not_depend_on_algorithm_and_chunk(void)
{
    static const enum config_algorithm algorithms[] = { CONFIG_ALGORITHM_AUTO,
        CONFIG_ALGORITHM_GATHER, CONFIG_ALGORITHM_DIRECT, CONFIG_ALGORITHM_DOUBLING };
    static const size_t chunks[] = { 1, 1000, 65536, (size_t)1 << 30 };

    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            struct setup setup = { .backend = &op_mpi,
                .algorithm = algorithms[a],
                .gather_bytes = 8192,
                .chunk_bytes = chunks[c] };
            struct bench bench;
            struct order order = { .collective = TUTTI_ALLREDUCE,
                .dtype = TUTTI_FLOAT32,
                .op = TUTTI_SUM,
                .prescale = 1,
                .postscale = 1 };

            bench_open(&bench, &setup);
            order.set = &bench.world;
            run_counts(&bench, &order);
            order.collective = TUTTI_REDUCE;
            run_counts(&bench, &order);
            order.collective = TUTTI_REDUCESCATTER;
            run_counts(&bench, &order);
            bench_close(&bench);
        }
    }
}

/* Every root, every shape of parts. */
static void test_roots_and_uneven_parts(void)
{
    struct bench bench;
    struct order order = {
        .dtype = TUTTI_BFLOAT16, .op = TUTTI_SUM, .prescale = 1, .postscale = 1
    };

    bench_open(&bench, &small_chunks);
    order.set = &bench.world;
    for (order.root = 0; order.root < bench.size; order.root++) {
        order.collective = TUTTI_REDUCE;
        run_counts(&bench, &order);
        order.collective = TUTTI_REDUCESCATTER;
        run_counts(&bench, &order);
    }
    bench_close(&bench);
}

static void test_large_batches(void)
{
    const struct setup setup = {
        .backend = &op_mpi, .gather_bytes = 8192, .chunk_bytes = 262144
    };
    struct bench bench;
    struct order order = { .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1,
        .postscale = 1,
        .count = 3000000,
        .in_place = true };

    bench_open(&bench, &setup);
    order.set = &bench.world;
    run_one(&bench, &order);
    order.sequence++;
    order.in_place = false;
    order.dtype = TUTTI_FLOAT16;
    order.op = TUTTI_AVERAGE;
    run_one(&bench, &order);
    order.sequence++;
    order.collective = TUTTI_BROADCAST;
    order.root = bench.size - 1;
    run_one(&bench, &order);
    bench_close(&bench);
}

static void test_broadcast_from_every_root(void)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT8_E4M3, TUTTI_FLOAT64,
        TUTTI_BOOL };
    struct bench bench;
    struct order order = { .collective = TUTTI_BROADCAST };

    bench_open(&bench, &small_chunks);
    order.set = &bench.world;
    for (order.root = 0; order.root < bench.size; order.root++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            order.dtype = dtypes[d];
            run_counts(&bench, &order);
        }
    }
    bench_close(&bench);
}

/* Order number i of a mix of collectives, types and sizes. */
static struct order mixed_order(const struct op_set *set, int i)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_INT8, TUTTI_BFLOAT16 };
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_BROADCAST,
        TUTTI_REDUCE, TUTTI_REDUCESCATTER };
    struct order order = { .set = set,
        .sequence = (uint64_t)i,
        .collective = collectives[i % 11 % 4],
        .dtype = dtypes[i % 3],
        .op = i % 2 == 0 ? TUTTI_SUM : TUTTI_MAX,
        .prescale = 1,
        .postscale = 1,
        .root = i % set->size,
        .count = counts[(size_t)i % COUNTS],
        .in_place = i % 5 < 2 };

    return order;
}

typedef struct order (*order_maker)(const struct op_set *set, int i);

/* Batch i of a round, for this rank. */
static struct order lane_order(
        const struct bench *bench, order_maker make, int round, int i)
{
    const struct lane_turn at = lane_turn_of(bench, round, i);
    struct order order = make(&bench->world, at.turn * OP_LANES + (int)at.lane);

    order.sequence = (uint64_t)at.turn;
    order.lane = at.lane;
    return order;
}

/* All that there can be; each rank starts lanes, and steps, in an order of its own. */
static void fly_in_all_lanes(const struct setup *setup, order_maker make)
{
    enum {
        FLIGHTS = OP_SLOTS,
        ROUNDS = 3
    };
    struct bench bench;
    struct flight *flights = mem_calloc(FLIGHTS, sizeof *flights);

    CHECK(flights != NULL);
    bench_open(&bench, setup);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < FLIGHTS; i++) {
            int place = (i + bench.rank * 13) % FLIGHTS;
            struct order order = lane_order(&bench, make, round, i);

            flight_make(&flights[place], &bench, &order);
            flight_start(&flights[place], &bench);
        }
        run_all(&bench, flights, FLIGHTS);
        for (int i = 0; i < FLIGHTS; i++) {
            flight_check(&flights[i]);
            flight_free(&flights[i]);
        }
    }
    bench_close(&bench);
    mem_free(flights);
}

static void test_many_batches_in_flight(void)
{
    fly_in_all_lanes(&small_chunks, mixed_order);
}

/* Sets that share ranks, one of them in reverse order; ranks start them differently. */
static void test_overlapping_sets_do_not_disturb_each_other(void)
{
    enum {
        PER_SET = OP_INFLIGHT_MAX,
        SETS = 2
    };
    struct bench bench;
    struct flight flights[SETS * PER_SET];
    struct op_set sets[SETS];
    int *reversed;
    int started = 0;

    bench_open(&bench, &small_chunks);
    reversed = mem_calloc((size_t)bench.size, sizeof *reversed);
    CHECK(reversed != NULL);
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
    for (int k = 0; k < SETS * PER_SET; k++) {
        int which = (k + bench.rank) % SETS;
        struct order order;

        if (sets[which].size == 0 || sets[which].rank < 0) {
            continue;
        }
        order = mixed_order(&sets[which], k / SETS);
        flight_make(&flights[started], &bench, &order);
        flight_start(&flights[started], &bench);
        started++;
    }
    run_all(&bench, flights, started);
    for (int i = 0; i < started; i++) {
        flight_check(&flights[i]);
        flight_free(&flights[i]);
    }
    mem_free(reversed);
    bench_close(&bench);
}

/* Fewer elements than ranks, and sets of one rank. */
static void test_a_set_of_one_rank(void)
{
    struct bench bench;
    struct op_set alone;
    struct order order = { .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_AVERAGE,
        .prescale = 2,
        .postscale = 3 };

    bench_open(&bench, &small_chunks);
    alone = (struct op_set){
        .index = 9, .rank = 0, .size = 1, .world_ranks = &bench.rank
    };
    order.set = &alone;
    run_counts(&bench, &order);
    order.collective = TUTTI_BROADCAST;
    run_counts(&bench, &order);
    order.collective = TUTTI_REDUCE;
    run_counts(&bench, &order);
    order.collective = TUTTI_REDUCESCATTER;
    run_counts(&bench, &order);
    bench_close(&bench);
}

static void test_steady_state_allocates_nothing(void)
{
    enum {
        ROUNDS = 20
    };
    struct bench bench;
    struct order order = { .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1,
        .postscale = 1 };
    uint64_t spent = 0;

    bench_open(&bench, &small_chunks);
    order.set = &bench.world;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        struct flight flight;
        uint64_t before;

        order.count = round % 2 == 0 ? 50 : 65537;
        flight_make(&flight, &bench, &order);
        before = mem_alloc_count();
        flight_start(&flight, &bench);
        run_all(&bench, &flight, 1);
        spent += round >= ROUNDS ? mem_alloc_count() - before : 0;
        flight_check(&flight);
        flight_free(&flight);
        order.sequence++;
    }
    CHECK_SAYS(spent == 0, "%d allocations", (int)spent);
    bench_close(&bench);
}

static void test_vendor_takes_only_what_it_does_as_promised(void)
{
    const struct setup setup = { .backend = &op_mpi_vendor, .chunk_bytes = 65536 };
    struct bench bench;
    struct op_set other;
    struct op_batch batch = {
        .run_count = 1, .count = 1, .collective = TUTTI_ALLREDUCE
    };

    bench_open(&bench, &setup);
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
    batch.lane = OP_LANES - 1;
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

static void check_vendor_result(const struct bench *bench, struct order *order)
{
    struct flight flight;

    flight_make(&flight, bench, order);
    if (bench->backend->accepts(bench->state, &flight.batch)) {
        flight_start(&flight, bench);
        run_all(bench, &flight, 1);
        flight_check(&flight);
        order->sequence++;
    }
    flight_free(&flight);
}

/* Integers of any bits; floats whose sums are exact, as the order of them is MPI's. */
static void test_vendor_reduces_all_that_it_takes(void)
{
    const struct setup setup = { .backend = &op_mpi_vendor, .chunk_bytes = 4096 };
    struct bench bench;
    struct order order = {
        .collective = TUTTI_ALLREDUCE, .prescale = 1, .postscale = 1, .count = 5000
    };
    bool means_are_exact;

    bench_open(&bench, &setup);
    order.set = &bench.world;
    means_are_exact = (bench.size & (bench.size - 1)) == 0;
    for (int i = 0; i < (TUTTI_FLOAT8_E5M2 + 1) * (int)REDUCTIONS; i++) {
        order.dtype = (tutti_dtype)(i / (int)REDUCTIONS);
        order.op = reductions[i % (int)REDUCTIONS];
        order.small_numbers = dtype_is_float(order.dtype);
        order.in_place = i % 2 == 0;
        if (order.op != TUTTI_AVERAGE || means_are_exact) {
            check_vendor_result(&bench, &order);
        }
    }
    CHECK_SAYS(order.sequence >= 20, "only %d were taken", (int)order.sequence);
    bench_close(&bench);
}

/* Each rank by itself decides whether its output is its input. */
static void test_vendor_lets_only_some_ranks_work_in_place(void)
{
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_BROADCAST };
    const struct setup setup = { .backend = &op_mpi_vendor, .chunk_bytes = 4096 };
    struct bench bench;
    struct order order = {
        .dtype = TUTTI_INT32, .op = TUTTI_SUM, .prescale = 1, .postscale = 1
    };

    bench_open(&bench, &setup);
    order.set = &bench.world;
    for (int in_place = 0; in_place < 1 << bench.size; in_place++) {
        order.in_place = (in_place >> bench.rank & 1) != 0;
        order.root = in_place % bench.size;
        for (int c = 0; c < 2; c++) {
            order.collective = collectives[c];
            order.count = 1;
            check_vendor_result(&bench, &order);
            order.count = 20000; /* by another algorithm of the MPI library */
            check_vendor_result(&bench, &order);
        }
    }
    bench_close(&bench);
}

/* Order number i of a mix that the MPI library takes. */
static struct order vendor_order(const struct op_set *set, int i)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_INT32, TUTTI_FLOAT64 };
    struct order order = mixed_order(set, i);
    bool is_float;

    order.collective = i % 4 == 3 ? TUTTI_BROADCAST : TUTTI_ALLREDUCE;
    order.dtype = dtypes[i % 3];
    is_float = dtype_is_float(order.dtype);
    order.op = TUTTI_SUM;
    order.prescale = is_float && i % 5 == 0 ? 2 : 1;
    order.postscale = is_float && i % 5 == 1 ? 0.5 : 1;
    order.small_numbers = true;
    return order;
}

/* With scaling passes, which make batches ready at different times. */
static void test_vendor_runs_many_batches_at_once(void)
{
    const struct setup setup = { .backend = &op_mpi_vendor, .chunk_bytes = 4096 };

    fly_in_all_lanes(&setup, vendor_order);
}

/* Cancelled with messages under way: must return; a second time does nothing. */
static void test_cancel_returns(void)
{
    struct bench bench;
    struct order order = { .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1,
        .postscale = 1,
        .count = 100 };
    struct flight flight;

    bench_open(&bench, &small_chunks);
    order.set = &bench.world;
    flight_make(&flight, &bench, &order);
    if (bench.rank == 0) {
        flight_start(&flight, &bench);
        (void)bench.backend->cancel(bench.state, flight.task);
        (void)bench.backend->cancel(bench.state, flight.task);
    }
    flight_free(&flight);
    drain(bench.comms[0]);
    bench_close(&bench);
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE;
    int rank = 0;

    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    test_every_type_and_reduction_gives_the_canonical_bits();
    test_the_bits_do_not_depend_on_algorithm_and_chunk();
    test_roots_and_uneven_parts();
    test_large_batches();
    test_broadcast_from_every_root();
    test_many_batches_in_flight();
    test_overlapping_sets_do_not_disturb_each_other();
    test_a_set_of_one_rank();
    test_steady_state_allocates_nothing();
    test_vendor_takes_only_what_it_does_as_promised();
    test_vendor_reduces_all_that_it_takes();
    test_vendor_lets_only_some_ranks_work_in_place();
    test_vendor_runs_many_batches_at_once();
    test_cancel_returns();
    meet(MPI_COMM_WORLD);
    (void)MPI_Finalize();
    if (rank == 0) {
        (void)printf("ok\n");
    }
    return 0;
}
