/*
 * Batches of ranks that are processes.
 */
#include "ranks.h"

#include <sched.h>
#include <string.h>

#include "base/status.h"
#include "check.h"
#include "test/batch/reference.h"

void bench_open(struct bench *bench, const struct setup *setup)
{
    memset(bench, 0, sizeof *bench);
    bench->backend = setup->backend;
    for (int l = 0; l < OP_LANES; l++) {
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
    bench->backend->close(bench->state);
    config_fini(&bench->config);
    for (int l = 0; l < OP_LANES; l++) {
        (void)MPI_Comm_free(&bench->comms[l]);
    }
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

/* Steps all that have not ended once; the number of those that do now. */
static int step_all(
        const struct bench *bench, struct batch *batches, int count, bool *moved)
{
    int ended = 0;

    for (int i = 0; i < count; i++) {
        if (batches[i].task != NULL && has_ended(bench, &batches[i], moved)) {
            ended++;
        }
    }
    return ended;
}

void bench_finish(const struct bench *bench, struct batch *batches, int count)
{
    int live = count;

    while (live > 0) {
        bool moved = false;

        live -= step_all(bench, batches, count, &moved);
        if (!moved) {
            (void)sched_yield();
        }
    }
}

void run_one(const struct bench *bench, const struct batch_order *order)
{
    struct batch batch;

    bench_make(bench, &batch, order);
    bench_start(bench, &batch);
    bench_finish(bench, &batch, 1);
}

void run_in_all_lanes(const struct setup *setup, order_maker make, int rounds)
{
    struct batch *batches = must_alloc((size_t)OP_SLOTS, sizeof *batches);
    struct bench bench;

    bench_open(&bench, setup);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < OP_SLOTS; i++) {
            const int lane = (i / OP_INFLIGHT_MAX + bench.rank) % OP_LANES;
            const int turn = round * OP_INFLIGHT_MAX + i % OP_INFLIGHT_MAX;
            struct batch *batch = &batches[(i + bench.rank * 13) % OP_SLOTS];
            struct batch_order order = make(&bench.world, turn * OP_LANES + lane);

            order.sequence = (uint64_t)turn;
            order.lane = (uint32_t)lane;
            bench_make(&bench, batch, &order);
            bench_start(&bench, batch);
        }
        bench_finish(&bench, batches, OP_SLOTS);
    }
    bench_close(&bench);
    free(batches);
}
