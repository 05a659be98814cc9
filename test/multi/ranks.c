/*
 * Batches of ranks that are processes.
 */
#include "ranks.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "check.h"
#include "ops/mpi/mpi.h"
#include "test/batch/reference.h"

/* The shortest messages of a backend; and so many that the window, of 8 in a link, goes round. */
#define MESSAGE_MIN ((size_t)64)
#define MESSAGES_MANY 64

void bench_open(struct bench *bench, const struct setup *setup)
{
    memset(bench, 0, sizeof *bench);
    bench->backend = setup->backend;
    bench->comm_count = setup->backend == &op_mpi_vendor ? OP_LANES : 1;
    bench->batches = must_alloc((size_t)OP_SLOTS, sizeof *bench->batches);
    memset(bench->batches, 0, (size_t)OP_SLOTS * sizeof *bench->batches);
    for (int l = 0; l < bench->comm_count; l++) {
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &bench->comms[l]) == MPI_SUCCESS);
        CHECK(MPI_Comm_set_errhandler(bench->comms[l], MPI_ERRORS_RETURN) ==
                MPI_SUCCESS);
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &bench->size);
    CHECK(bench->size <= BATCH_RANKS_MAX);
    CHECK(config_init(&bench->config) == TUTTI_OK);
    bench->config.algorithm = (int)setup->algorithm;
    bench->config.gather_bytes = setup->gather_bytes;
    bench->config.wire_dtype = (int)setup->wire;
    for (int i = 0; i < bench->size; i++) {
        bench->identity[i] = i;
    }
    bench->world = (struct op_set){
        .rank = bench->rank, .size = bench->size, .world_ranks = bench->identity
    };
    bench->env = (struct op_env){ .config = &bench->config,
        .world_rank = bench->rank,
        .world_size = bench->size,
        .chunk_bytes = setup->chunk_bytes,
        .link = { .message_bytes = setup->link_bytes,
                .window_bytes = setup->link_bytes * 8 },
        .native = bench->comms };
    CHECK(bench->backend->open(&bench->env, &bench->state) == TUTTI_OK);
}

void bench_close(struct bench *bench)
{
    bench_finish(bench, bench->batches, OP_SLOTS);
    bench->backend->close(bench->state);
    config_fini(&bench->config);
    for (int l = 0; l < bench->comm_count; l++) {
        (void)MPI_Comm_free(&bench->comms[l]);
    }
    free(bench->batches);
}

void bench_make(
        const struct bench *bench, struct batch *batch, const struct batch_order *order)
{
    batch_make(batch, order, bench->backend->task_bytes);
}

void bench_start(const struct bench *bench, struct batch *batch)
{
    CHECK(bench->backend->accepts(bench->state, &batch->op));
    CHECK(bench->backend->start(bench->state, batch->task, &batch->op) == TUTTI_OK);
}

tutti_status bench_wait(const struct bench *bench, struct batch *batch)
{
    tutti_status status = TUTTI_AGAIN;

    while (status == TUTTI_AGAIN) {
        bool moved = false;

        status = bench->backend->step(bench->state, batch->task, &moved);
        if (!moved) {
            (void)sched_yield();
        }
    }
    return status;
}

/* Steps it once; true when it has become final, right, and nothing any more. */
static bool has_ended(const struct bench *bench, struct batch *batch, bool *moved)
{
    const tutti_status status = bench->backend->step(bench->state, batch->task, moved);
    const char *error;

    CHECK_SAYS(status == TUTTI_OK || status == TUTTI_AGAIN, "step gave %s",
            tutti_status_name(status));
    if (status == TUTTI_AGAIN) {
        return false;
    }
    error = batch_error(batch);
    CHECK_SAYS(error == NULL, "batch %d of lane %d: %s", (int)batch->order.sequence,
            (int)batch->order.lane, error);
    batch_free(batch);
    return true;
}

/* Steps all that have not ended once; the number of those that still have not. */
static int step_all(
        const struct bench *bench, struct batch *batches, int count, bool *moved)
{
    int live = 0;

    for (int i = 0; i < count; i++) {
        if (batches[i].task != NULL && !has_ended(bench, &batches[i], moved)) {
            live++;
        }
    }
    return live;
}

void bench_finish(const struct bench *bench, struct batch *batches, int count)
{
    bool moved = false;

    while (step_all(bench, batches, count, &moved) > 0) {
        if (!moved) {
            (void)sched_yield();
        }
        moved = false;
    }
}

bool bench_cuts_into_few(const struct bench *bench, size_t bytes)
{
    const struct op_env *env = &bench->env;
    const size_t message =
            env->link.message_bytes > 0 ? env->link.message_bytes : env->chunk_bytes;

    return bytes / size_max(message, MESSAGE_MIN) <= MESSAGES_MANY;
}

void bench_run(const struct bench *bench, const struct batch_order *order)
{
    const uint64_t number = order->sequence;
    struct batch *batch = &bench->batches[number % OP_SLOTS];
    struct batch_order numbered = *order;

    if (batch->task != NULL) {
        bench_finish(bench, bench->batches, OP_SLOTS);
    }
    numbered.lane = (uint32_t)(number % OP_LANES);
    numbered.sequence = number / OP_LANES;
    bench_make(bench, batch, &numbered);
    bench_start(bench, batch);
}

void run_in_all_lanes(const struct setup *setup, order_maker make, int rounds)
{
    struct bench bench;

    bench_open(&bench, setup);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < OP_SLOTS; i++) {
            const int lane = (i / OP_INFLIGHT_MAX + bench.rank) % OP_LANES;
            const int turn = round * OP_INFLIGHT_MAX + i % OP_INFLIGHT_MAX;
            struct batch *batch = &bench.batches[(i + bench.rank * 13) % OP_SLOTS];
            struct batch_order order = make(&bench.world, turn * OP_LANES + lane);

            order.sequence = (uint64_t)turn;
            order.lane = (uint32_t)lane;
            bench_make(&bench, batch, &order);
            bench_start(&bench, batch);
        }
        bench_finish(&bench, bench.batches, OP_SLOTS);
    }
    bench_close(&bench);
}
