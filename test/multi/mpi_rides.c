/*
 * Batches that ride, on op_mpi: what the core does with them (docs/design/plan.md), without
 * the core. Each rank arrives at one batch after the other, up to WINDOW ahead of what it
 * knows, until some poison one of them; then all walk as far as any may have begun.
 */
#include <mpi.h>
#include <sched.h>
#include <string.h>

#include "backend_driver.h"
#include "base/clock.h"
#include "base/mem.h"
#include "check.h"
#include "meet.h"
#include "ops/mpi/mpi.h"

enum {
    WINDOW = OP_INFLIGHT_MAX,
    NEVER = 1 << 20,
    LONGEST = 24 /* batches of an epoch that commit */
};

#define DEADLINE_NS ((int64_t)20 * 1000000000)

/* Random numbers; ranks that seed alike draw alike. */
struct dice {
    uint64_t state;
};

static int roll(struct dice *dice, int sides)
{
    dice->state = dice->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (int)((dice->state >> 33) % (uint64_t)sides);
}

/* An epoch as a rank sees it. */
struct epoch {
    const struct bench *bench;
    struct flight flights[LONGEST + 2 * WINDOW]; /* by index */
    struct order orders[LONGEST + 2 * WINDOW]; /* by index, equal on all ranks */
    int poison; /* the index that this rank poisons, or NEVER */
    int outcome; /* what must come out */
    int cursor; /* contributed below */
    int decided; /* agreed below */
    int ended; /* final below */
    bool poisoned, left;
};

static const size_t counts[] = { 1, 2, 5, 60, 64, 1000, 4097, 65537 };
#define COUNTS (sizeof counts / sizeof *counts)

/* All ranks draw the same batches and poisoners. */
static void plan_epoch(struct epoch *epoch, const struct bench *bench,
        struct dice *common, uint64_t base, uint32_t lane)
{
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
        TUTTI_REDUCESCATTER };
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_INT8, TUTTI_BFLOAT16 };
    const int poisoner = roll(common, bench->size);
    const int lowest = roll(common, LONGEST);

    memset(epoch, 0, sizeof *epoch);
    epoch->bench = bench;
    epoch->outcome = lowest;
    for (int r = 0; r < bench->size; r++) {
        const int later = roll(common, 2) == 0 ? lowest + roll(common, 4) : NEVER;
        const int poison = r == poisoner ? lowest : later;

        epoch->poison = r == bench->rank ? poison : epoch->poison;
    }
    for (int k = 0; k < LONGEST + 2 * WINDOW; k++) {
        epoch->orders[k] = (struct order){ .set = &bench->world,
            .sequence = base + (uint64_t)k,
            .lane = lane,
            .collective = collectives[roll(common, 3)],
            .dtype = dtypes[roll(common, 3)],
            .op = TUTTI_SUM,
            .prescale = 1,
            .postscale = 1,
            .root = roll(common, bench->size),
            .count = counts[roll(common, (int)COUNTS)],
            .in_place = roll(common, 2) == 0,
            .rides = true };
    }
}

static void arrive(struct epoch *epoch, struct flight *flight)
{
    flight_make(flight, epoch->bench, &epoch->orders[epoch->cursor]);
    CHECK(epoch->bench->backend->rides(epoch->bench->state, &flight->batch));
    flight_start(flight, epoch->bench);
}

/* The next batch, if the window and the slots allow: true when it did anything. */
static bool contribute(struct epoch *epoch)
{
    const bool slot = epoch->cursor < epoch->ended + WINDOW;
    const bool window = epoch->cursor < epoch->decided + WINDOW;
    const bool walks = epoch->left || epoch->cursor == epoch->poison;
    struct flight *flight = &epoch->flights[epoch->cursor];

    if (!slot || !window || (epoch->poisoned && !epoch->left)) {
        return false;
    }
    if (walks) {
        flight_walk(flight, epoch->bench, &epoch->orders[epoch->cursor]);
        epoch->poisoned = true;
    } else {
        arrive(epoch, flight);
    }
    epoch->cursor++;
    return true;
}

/* How many members have been heard, until one walks. */
static int heard_by(const struct epoch *epoch, const struct flight *flight, bool *walks)
{
    const struct bench *bench = epoch->bench;
    int heard = 0;

    /* What a walk heard is nobody's business, and it may be final. */
    *walks = flight->input == NULL;
    for (int m = 0; m < bench->size && !*walks; m++) {
        const enum op_word word = m == bench->rank
                ? OP_ARRIVES
                : bench->backend->heard(bench->state, flight->task, m);

        *walks = *walks || word == OP_WALKS;
        heard += word != OP_UNHEARD ? 1 : 0;
    }
    return heard;
}

static void leave(struct epoch *epoch)
{
    CHECK_SAYS(epoch->decided == epoch->outcome, "batch %d is the outcome, not %d",
            epoch->decided, epoch->outcome);
    epoch->left = true;
    for (int k = epoch->decided; k < epoch->cursor; k++) {
        epoch->flights[k].batch.accord = OP_DROPPED;
    }
}

/* The first batch of which nothing is known yet. */
static void decide(struct epoch *epoch)
{
    struct flight *flight = &epoch->flights[epoch->decided];
    bool walks = false;

    if (epoch->left || epoch->decided == epoch->cursor) {
        return;
    }
    if (heard_by(epoch, flight, &walks) == epoch->bench->size && !walks) {
        flight_check_untouched(flight);
        flight->batch.accord = OP_AGREED;
        epoch->decided++;
    } else if (walks) {
        leave(epoch);
    }
}

static void step_flights(struct epoch *epoch, bool *moved)
{
    for (int k = epoch->ended; k < epoch->cursor; k++) {
        if (epoch->flights[k].live) {
            (void)flight_step(&epoch->flights[k], epoch->bench, moved);
        }
    }
    while (epoch->ended < epoch->cursor && !epoch->flights[epoch->ended].live &&
            (epoch->ended < epoch->decided || epoch->left)) {
        epoch->ended++;
    }
}

static void check_flights(struct epoch *epoch)
{
    for (int k = 0; k < epoch->cursor; k++) {
        struct flight *flight = &epoch->flights[k];

        if (flight->input != NULL && k < epoch->outcome) {
            flight_check(flight);
        } else if (flight->input != NULL) {
            flight_check_untouched(flight);
        }
        flight_free(flight);
    }
}

/* With pauses of this rank's own, in which others get ahead. */
static void run_epoch(struct epoch *epoch, struct dice *own)
{
    const int64_t deadline = clock_ns() + DEADLINE_NS;

    while (!epoch->left || epoch->ended < epoch->outcome + WINDOW) {
        bool moved = false;

        if (roll(own, 3) > 0) {
            moved = contribute(epoch);
        }
        if (roll(own, 3) > 0) {
            step_flights(epoch, &moved);
        }
        decide(epoch);
        if (!moved) {
            (void)sched_yield();
        }
        CHECK_SAYS(clock_ns() < deadline,
                "hangs: contributed %d, decided %d, ended %d, outcome %d",
                epoch->cursor, epoch->decided, epoch->ended, epoch->outcome);
    }
    CHECK(epoch->cursor == epoch->outcome + WINDOW);
    check_flights(epoch);
}

static void run_epochs(const struct setup *setup, uint64_t seed, int epochs)
{
    struct epoch *epoch = mem_calloc(1, sizeof *epoch);
    struct dice common = { .state = seed };
    struct bench bench;
    struct dice own;
    uint64_t base = 0;

    CHECK(epoch != NULL);
    bench_open(&bench, setup);
    own.state = seed * 1000 + (uint64_t)bench.rank;
    for (int e = 0; e < epochs; e++) {
        plan_epoch(epoch, &bench, &common, base, 3);
        run_epoch(epoch, &own);
        base += (uint64_t)(epoch->outcome + WINDOW);
    }
    bench_close(&bench);
    mem_free(epoch);
}

/* Slices of a few hundred bytes: most batches have many chunks. */
static void test_epochs_with_small_messages(void)
{
    const struct setup setup = {
        .backend = &op_mpi, .gather_bytes = 256, .chunk_bytes = 1024
    };

    run_epochs(&setup, 1, 40);
}

/* Messages that MPI sends only when they are received. */
static void test_epochs_with_large_messages(void)
{
    const struct setup setup = {
        .backend = &op_mpi, .gather_bytes = 65536, .chunk_bytes = 262144
    };

    run_epochs(&setup, 2, 40);
}

/* An operand that is too large for who walks, and what has no first exchange. */
static void test_what_rides(void)
{
    const struct setup setup = {
        .backend = &op_mpi, .algorithm = CONFIG_ALGORITHM_GATHER, .chunk_bytes = 1024
    };
    struct op_batch batch = {
        .run_count = 1, .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32
    };
    struct bench bench;
    struct op_set alone;

    bench_open(&bench, &setup);
    alone = bench.world;
    alone.size = 1;
    batch.set = &bench.world;
    batch.count = 256;
    CHECK(op_mpi.rides(bench.state, &batch));
    batch.count = 257;
    CHECK(!op_mpi.rides(bench.state, &batch));
    batch.count = 1;
    batch.collective = TUTTI_BROADCAST;
    CHECK(!op_mpi.rides(bench.state, &batch));
    batch.collective = TUTTI_ALLGATHER;
    CHECK(!op_mpi.rides(bench.state, &batch));
    batch.collective = TUTTI_REDUCE;
    CHECK(op_mpi.rides(bench.state, &batch));
    batch.set = &alone;
    CHECK(!op_mpi.rides(bench.state, &batch));
    bench_close(&bench);
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE;
    int rank = 0;

    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    test_what_rides();
    test_epochs_with_small_messages();
    test_epochs_with_large_messages();
    meet(MPI_COMM_WORLD);
    (void)MPI_Finalize();
    if (rank == 0) {
        (void)printf("ok\n");
    }
    return 0;
}
