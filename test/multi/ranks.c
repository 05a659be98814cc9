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
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &bench->comm) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(bench->comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
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
        .native = &bench->comm };
    CHECK(bench->backend->open(&bench->env, &bench->state) == TUTTI_OK);
}

void bench_close(struct bench *bench)
{
    bench->backend->close(bench->state);
    config_fini(&bench->config);
    (void)MPI_Comm_free(&bench->comm);
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
    CHECK_SAYS(error == NULL, "batch %d of set %d: %s", (int)batch->order.sequence,
            (int)batch->order.set->index, error);
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

void run_at_once(const struct setup *setup, order_maker make, int sets, int rounds)
{
    const int count = sets * OP_INFLIGHT_MAX;
    struct batch *batches = must_alloc((size_t)count, sizeof *batches);
    struct op_set *worlds = must_alloc((size_t)sets, sizeof *worlds);
    struct bench bench;

    bench_open(&bench, setup);
    for (int s = 0; s < sets; s++) {
        worlds[s] = bench.world;
        worlds[s].id = worlds[s].index = (uint32_t)s;
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            const int set = (i / OP_INFLIGHT_MAX + bench.rank) % sets;
            const int turn = round * OP_INFLIGHT_MAX + i % OP_INFLIGHT_MAX;
            struct batch *batch = &batches[(i + bench.rank * 13) % count];
            struct batch_order order = make(&worlds[set], turn * sets + set);

            order.sequence = (uint64_t)turn;
            bench_make(&bench, batch, &order);
            bench_start(&bench, batch);
        }
        bench_finish(&bench, batches, count);
    }
    bench_close(&bench);
    free(worlds);
    free(batches);
}
