/*
 * Allgather, alltoall, gather and scatter of op_mpi, between real processes and without
 * the core.
 */
#include <mpi.h>
#include <sched.h>

#include "backend_driver.h"
#include "base/clock.h"
#include "base/mem.h"
#include "check.h"
#include "meet.h"
#include "ops/mpi/mpi.h"
#include "test/trade.h"

static const struct setup setup = {
    .backend = &op_mpi, .gather_bytes = 256, .chunk_bytes = 4096
};

static const tutti_collective exchanges[] = { TUTTI_ALLGATHER, TUTTI_ALLTOALL,
    TUTTI_GATHER, TUTTI_SCATTER };
#define EXCHANGES (sizeof exchanges / sizeof *exchanges)

/* With more ranks than this only what takes many ranks is tested. */
#define LARGE_SET 8
/* A test that takes longer hangs. */
#define DEADLINE_NS ((int64_t)100 * 1000000000)

static void start(const struct bench *bench, struct trade *trade)
{
    CHECK(bench->backend->accepts(bench->state, &trade->batch));
    CHECK(bench->backend->start(bench->state, trade->task, &trade->batch) == TUTTI_OK);
}

/* Steps started trades, in the order given, until all are final, and checks them. */
static void finish(const struct bench *bench, struct trade *trades, int count)
{
    const int64_t deadline = clock_ns() + DEADLINE_NS;
    int live = count;

    while (live > 0) {
        bool moved = false;

        for (int i = 0; i < count; i++) {
            tutti_status status = TUTTI_AGAIN;

            if (trades[i].task != NULL) {
                status = bench->backend->step(bench->state, trades[i].task, &moved);
            }
            CHECK(status == TUTTI_OK || status == TUTTI_AGAIN);
            if (status == TUTTI_OK) {
                const char *error = trade_error(&trades[i]);

                CHECK_SAYS(error == NULL, "collective %d, batch %d: %s",
                        (int)trades[i].batch.collective, (int)trades[i].batch.sequence,
                        error);
                trade_free(&trades[i]);
                trades[i].task = NULL;
                live--;
            }
        }
        if (!moved) {
            (void)sched_yield();
            CHECK_SAYS(clock_ns() < deadline, "%d batches hang", live);
        }
    }
}

static void run_one_trade(const struct bench *bench, const struct trade_order *order)
{
    struct trade trade;

    trade_make(&trade, order, bench->backend->task_bytes);
    start(bench, &trade);
    finish(bench, &trade, 1);
}

/* Order number i: all kinds of everything. */
static struct trade_order mixed_order(const struct op_set *set, int i)
{
    static const size_t mosts[] = { 1, 100, 5000, 40000, 200000 };
    const bool known = i % 3 != 0;

    return (struct trade_order){ .set = set,
        .sequence = (uint64_t)i,
        .collective = exchanges[(size_t)(i + i / 8) % EXCHANGES],
        .root = i % set->size,
        .run_count = i % 2 == 0 ? 1 : 1 + (size_t)i % TRADE_RUNS_MAX,
        .most = mosts[(i / 2) % 5],
        .sizes_known = known,
        .in_place = known && i % 4 == 1 };
}

static void test_one_at_a_time(void)
{
    struct bench bench;

    bench_open(&bench, &setup);
    for (int i = 0; i < 240; i++) {
        struct trade_order order = mixed_order(&bench.world, i);

        run_one_trade(&bench, &order);
    }
    bench_close(&bench);
}

/* Batch i of a round, for this rank. */
static struct trade_order lane_order(const struct bench *bench, int round, int i)
{
    const struct lane_turn at = lane_turn_of(bench, round, i);
    struct trade_order order =
            mixed_order(&bench->world, at.turn * OP_LANES + (int)at.lane);

    order.sequence = (uint64_t)at.turn;
    order.lane = at.lane;
    return order;
}

/* All that there can be; each rank starts lanes, and steps, in an order of its own. */
static void test_many_in_flight(void)
{
    struct bench bench;
    struct trade *trades = mem_calloc(OP_SLOTS, sizeof *trades);

    CHECK(trades != NULL);
    bench_open(&bench, &setup);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OP_SLOTS; i++) {
            int place = (i + bench.rank * 13) % OP_SLOTS;
            struct trade_order order = lane_order(&bench, round, i);

            trade_make(&trades[place], &order, bench.backend->task_bytes);
            start(&bench, &trades[place]);
        }
        finish(&bench, trades, OP_SLOTS);
    }
    bench_close(&bench);
    mem_free(trades);
}

static void test_large_parts(void)
{
    struct bench bench;
    struct trade_order order = { .run_count = 3, .most = (size_t)3 << 20 };

    bench_open(&bench, &setup);
    order.set = &bench.world;
    for (size_t c = 0; c < 2 * EXCHANGES; c++) {
        order.collective = exchanges[c % EXCHANGES];
        order.sizes_known = c < EXCHANGES;
        run_one_trade(&bench, &order);
        order.sequence++;
    }
    bench_close(&bench);
}

/* Runs one reduction and one exchange on a set; two sequence numbers. */
static void run_pair(
        const struct bench *bench, const struct op_set *set, uint64_t sequence)
{
    struct trade_order trade = mixed_order(set, (int)sequence + 1);
    struct order order = { .set = set,
        .sequence = sequence,
        .collective = sequence % 4 == 0 ? TUTTI_ALLREDUCE : TUTTI_REDUCESCATTER,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1,
        .postscale = 1,
        .count = sequence % 8 < 4 ? 40 : 4000 };

    run_one(bench, &order);
    run_one_trade(bench, &trade);
}

/* The last rank is left out of batches 6 to 99, as one that joined, and comes back. */
static void test_a_rank_may_be_left_out(void)
{
    struct bench bench;
    struct op_set fewer;

    bench_open(&bench, &setup);
    fewer = bench.world;
    fewer.size--;
    for (uint64_t sequence = 0; sequence < 300; sequence += 2) {
        bool left_out = sequence % 150 >= 6 && sequence % 150 < 100;

        if (left_out && bench.rank < fewer.size) {
            run_pair(&bench, &fewer, sequence);
        } else if (!left_out) {
            run_pair(&bench, &bench.world, sequence);
        }
    }
    bench_close(&bench);
}

static void test_a_failure_to_place_ends_the_batch(void)
{
    struct bench bench;
    struct trade_order order = {
        .collective = TUTTI_ALLGATHER, .run_count = 3, .most = 100
    };
    struct trade trade;
    tutti_status status = TUTTI_AGAIN;
    bool moved = false;

    bench_open(&bench, &setup);
    order.set = &bench.world;
    trade_make(&trade, &order, bench.backend->task_bytes);
    trade.fail_place_at = 2;
    start(&bench, &trade);
    while (status == TUTTI_AGAIN) {
        status = bench.backend->step(bench.state, trade.task, &moved);
    }
    CHECK(status == TUTTI_ERR_NO_MEMORY);
    while (!bench.backend->cancel(bench.state, trade.task)) {
        (void)sched_yield();
    }
    trade_free(&trade);
    drain(bench.comms[0]);
    bench_close(&bench);
}

/* Cancelled with messages under way: must return; a second time does nothing. */
static void test_cancel_returns(void)
{
    for (uint64_t known = 0; known < 2; known++) {
        struct bench bench;
        struct trade_order order = { .sequence = known,
            .collective = TUTTI_ALLTOALL,
            .run_count = 3,
            .most = 100,
            .sizes_known = known == 1 };
        struct trade trade;

        bench_open(&bench, &setup);
        order.set = &bench.world;
        trade_make(&trade, &order, bench.backend->task_bytes);
        if (bench.rank == 0) {
            start(&bench, &trade);
            (void)bench.backend->cancel(bench.state, trade.task);
            (void)bench.backend->cancel(bench.state, trade.task);
        }
        trade_free(&trade);
        drain(bench.comms[0]);
        bench_close(&bench);
    }
}

static void test_steady_state_allocates_nothing(void)
{
    enum {
        KINDS = 24
    };
    struct bench bench;
    uint64_t spent = 0;

    bench_open(&bench, &setup);
    for (int i = 0; i < 3 * KINDS; i++) {
        struct trade_order order = mixed_order(&bench.world, i % KINDS);
        struct trade trade;
        tutti_status status = TUTTI_AGAIN;
        bool moved = false;
        uint64_t before;
        size_t placed;

        order.sequence = (uint64_t)i;
        trade_make(&trade, &order, bench.backend->task_bytes);
        before = mem_alloc_count();
        start(&bench, &trade);
        while (status == TUTTI_AGAIN) {
            status = bench.backend->step(bench.state, trade.task, &moved);
        }
        placed = trade.placed; /* each allocates an output */
        spent += i >= 2 * KINDS ? mem_alloc_count() - before - placed : 0;
        CHECK(trade_error(&trade) == NULL);
        trade_free(&trade);
    }
    CHECK_SAYS(spent == 0, "%d allocations", (int)spent);
    bench_close(&bench);
}

/* For more ranks than a rank serves at once. */
static void test_a_large_set(void)
{
    struct bench bench;

    bench_open(&bench, &setup);
    for (int i = 0; i < 24; i++) {
        struct trade_order order = mixed_order(&bench.world, i);

        order.most = 6000;
        run_one_trade(&bench, &order);
    }
    bench_close(&bench);
}

static void test_sets_of_any_size(void)
{
    test_one_at_a_time();
    test_many_in_flight();
    test_large_parts();
    test_a_rank_may_be_left_out();
    test_steady_state_allocates_nothing();
    test_a_failure_to_place_ends_the_batch();
    test_cancel_returns();
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
        test_a_large_set();
    }
    meet(MPI_COMM_WORLD);
    (void)MPI_Finalize();
    if (rank == 0) {
        (void)printf("ok\n");
    }
    return 0;
}
