/*
 * Sums of float32 that travel in 16 bits (wire_dtype), between real processes and without the
 * core. The driver compares every bit with the definition, in which messages do not occur,
 * and every value with the bound of docs/numerics.md.
 */
#include <math.h>
#include <mpi.h>
#include <string.h>

#include "backend_driver.h"
#include "base/mem.h"
#include "check.h"
#include "meet.h"
#include "ops/mpi/mpi.h"

static const size_t counts[] = { 3, 17, 31, 1000, 4099, 65537 };
#define COUNTS (sizeof counts / sizeof *counts)

static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
    TUTTI_REDUCESCATTER };
#define COLLECTIVES (sizeof collectives / sizeof *collectives)

static struct setup setup_of(enum config_wire_dtype wire, size_t link_bytes)
{
    return (struct setup){ .backend = &op_mpi,
        .gather_bytes = 64,
        .chunk_bytes = 4096,
        .link_bytes = link_bytes,
        .wire = wire };
}

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

/* What travels narrow, and what must not. */
static void check_wire(enum config_wire_dtype wire, size_t link_bytes)
{
    const struct setup setup = setup_of(wire, link_bytes);
    struct bench bench;

    bench_open(&bench, &setup);
    for (int root = 0; root < bench.size; root++) {
        struct order order = { .set = &bench.world,
            .sequence = (uint64_t)root * 1000,
            .root = root,
            .prescale = 0.3,
            .postscale = 1.7 };

        order.collective = collectives[root % (int)COLLECTIVES];
        order.dtype = TUTTI_FLOAT32;
        order.op = TUTTI_AVERAGE;
        run_counts(&bench, &order);
        order.op = root % 2 == 0 ? TUTTI_PRODUCT : TUTTI_MIN;
        run_counts(&bench, &order);
        order.op = TUTTI_SUM;
        order.dtype = root % 2 == 0 ? TUTTI_BFLOAT16 : TUTTI_FLOAT64;
        run_counts(&bench, &order);
        order.dtype = TUTTI_FLOAT32;
        order.prescale = 1;
        order.postscale = 1;
        for (size_t c = 0; c < COLLECTIVES; c++) {
            order.collective = collectives[c];
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

/* All ranks have the bits of rank 0. */
static void check_same(const struct bench *bench, const float *output, size_t count)
{
    float *first = mem_alloc(count * sizeof *first);

    CHECK(first != NULL);
    memcpy(first, output, count * sizeof *first);
    CHECK(MPI_Bcast(first, (int)count, MPI_FLOAT, 0, bench->comms[0]) == MPI_SUCCESS);
    CHECK_SAYS(memcmp(first, output, count * sizeof *first) == 0,
            "rank %d has other bits than rank 0", bench->rank);
    mem_free(first);
}

/* Too large for float16 as an operand or as a sum, infinite, and no number. */
static void test_what_float16_cannot_hold_is_infinite_on_all_ranks(void)
{
    enum {
        COUNT = 5000
    };
    static const float values[] = { 1e5F, INFINITY, NAN, 60000.0F };
    const struct setup setup = setup_of(CONFIG_WIRE_DTYPE_FLOAT16, 4096);
    struct bench bench;
    struct order order = { .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1,
        .postscale = 1,
        .count = COUNT };
    struct flight flight;
    float input[COUNT];
    float output[COUNT];

    bench_open(&bench, &setup);
    order.set = &bench.world;
    flight_make(&flight, &bench, &order);
    for (int i = 0; i < COUNT; i++) {
        input[i] = values[i % 4];
    }
    flight.run.input = input;
    flight.run.output = output;
    flight_start(&flight, &bench);
    run_all(&bench, &flight, 1);
    for (int i = 0; i < COUNT && bench.size > 1; i++) {
        CHECK(i % 4 == 2 ? isnan(output[i]) : isinf(output[i]));
    }
    check_same(&bench, output, COUNT);
    flight_free(&flight);
    bench_close(&bench);
}

/* An owner that kept what it has not sent would differ from all others. */
static void test_all_ranks_have_the_same_bits(void)
{
    const struct setup setup = setup_of(CONFIG_WIRE_DTYPE_BFLOAT16, 4096);
    struct bench bench;
    struct order order = { .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_AVERAGE,
        .prescale = 1,
        .postscale = 1,
        .count = 65537 };
    struct flight flight;

    bench_open(&bench, &setup);
    order.set = &bench.world;
    flight_make(&flight, &bench, &order);
    flight_start(&flight, &bench);
    run_all(&bench, &flight, 1);
    check_same(&bench, flight.run.output, order.count);
    flight_free(&flight);
    bench_close(&bench);
}

/* Of all lanes, in another order on each rank. */
static void test_many_batches_in_flight(void)
{
    enum {
        FLIGHTS = OP_SLOTS
    };
    const struct setup setup = setup_of(CONFIG_WIRE_DTYPE_BFLOAT16, 512);
    struct bench bench;
    struct flight *flights = mem_calloc(FLIGHTS, sizeof *flights);

    CHECK(flights != NULL);
    bench_open(&bench, &setup);
    for (int i = 0; i < FLIGHTS; i++) {
        const struct lane_turn at = lane_turn_of(&bench, 0, i);
        const int place = (i + bench.rank * 13) % FLIGHTS;
        struct order order = { .set = &bench.world,
            .sequence = (uint64_t)at.turn,
            .lane = at.lane,
            .collective = collectives[at.turn % (int)COLLECTIVES],
            .dtype = TUTTI_FLOAT32,
            .op = at.turn % 4 == 3 ? TUTTI_MAX : TUTTI_SUM,
            .prescale = 1,
            .postscale = 1,
            .root = at.turn % bench.size,
            .count = counts[(size_t)(at.turn + (int)at.lane) % (COUNTS - 1)],
            .in_place = at.turn % 2 == 0 };

        flight_make(&flights[place], &bench, &order);
        flight_start(&flights[place], &bench);
    }
    run_all(&bench, flights, FLIGHTS);
    for (int i = 0; i < FLIGHTS; i++) {
        flight_check(&flights[i]);
        flight_free(&flights[i]);
    }
    bench_close(&bench);
    mem_free(flights);
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

/* With messages under way that nobody will take: must return, and leave the input alone. */
static void test_cancel_returns(void)
{
    const struct setup setup = setup_of(CONFIG_WIRE_DTYPE_BFLOAT16, 4096);
    struct bench bench;
    struct order order = { .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1,
        .postscale = 1,
        .count = 100 };
    struct flight flight;

    bench_open(&bench, &setup);
    order.set = &bench.world;
    flight_make(&flight, &bench, &order);
    if (bench.rank == 0) {
        flight_start(&flight, &bench);
        (void)bench.backend->cancel(bench.state, flight.task);
        (void)bench.backend->cancel(bench.state, flight.task);
        flight_check_untouched(&flight);
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
    test_sums_travel_in_16_bits_between_nodes();
    test_what_float16_cannot_hold_is_infinite_on_all_ranks();
    test_all_ranks_have_the_same_bits();
    test_many_batches_in_flight();
    test_a_narrow_wire_does_not_follow_ranks();
    test_cancel_returns();
    meet(MPI_COMM_WORLD);
    (void)MPI_Finalize();
    if (rank == 0) {
        (void)printf("ok\n");
    }
    return 0;
}
