/*
 * Batches of ranks that are processes.
 */
#include "ranks.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "check.h"
#include "ops/mpi/vendor.h"
#include "test/batch/reference.h"

/* The shortest messages of a backend; and so many that the window, of 8 in a link, goes round. */
#define MESSAGE_MIN ((size_t)64)
#define MESSAGES_MANY 64

void bench_open(struct bench *bench, const struct setup *setup)
{
    memset(bench, 0, sizeof *bench);
    bench->backend = setup->backend;
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &bench->comm) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(bench->comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    mpi_fabric_init(&bench->fabric, &bench->over, bench->comm, bench->comm);
    bench->batches = must_alloc(BENCH_BATCHES, sizeof *bench->batches);
    memset(bench->batches, 0, BENCH_BATCHES * sizeof *bench->batches);
    bench->sets = must_alloc(BENCH_BATCHES, sizeof *bench->sets);
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
        .native = setup->backend == &op_mpi_vendor ? (void *)&bench->comm
                                                   : (void *)&bench->fabric };
    CHECK(bench->backend->open(&bench->env, &bench->state) == TUTTI_OK);
}

void bench_close(struct bench *bench)
{
    bench_finish(bench, bench->batches, BENCH_BATCHES);
    bench->backend->close(bench->state);
    config_fini(&bench->config);
    mpi_fabric_fini(&bench->over);
    (void)MPI_Comm_free(&bench->comm);
    free(bench->sets);
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
    CHECK_SAYS(error == NULL, "batch %d of set %d: %s", (int)batch->order.sequence,
            (int)batch->order.set->index, error);
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

/* The same ranks as another set, for the batch in a slot. */
static const struct op_set *set_of_slot(
        const struct bench *bench, const struct op_set *set, int slot, int index)
{
    bench->sets[slot] = *set;
    bench->sets[slot].id = bench->sets[slot].index = (uint32_t)index;
    return &bench->sets[slot];
}

void bench_run(const struct bench *bench, const struct batch_order *order)
{
    const uint64_t number = order->sequence;
    struct batch *batch = &bench->batches[number % BENCH_BATCHES];
    struct batch_order numbered = *order;

    if (batch->task != NULL) {
        bench_finish(bench, bench->batches, BENCH_BATCHES);
    }
    numbered.set = set_of_slot(bench, order->set, (int)(number % BENCH_BATCHES),
            (int)(number % BENCH_SETS));
    numbered.sequence = number / BENCH_SETS;
    bench_make(bench, batch, &numbered);
    bench_start(bench, batch);
}

void run_at_once(const struct setup *setup, order_maker make, int sets, int rounds)
{
    const int count = sets * OP_INFLIGHT_MAX;
    struct bench bench;

    CHECK(sets <= BENCH_SETS);
    bench_open(&bench, setup);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            const int set = (i / OP_INFLIGHT_MAX + bench.rank) % sets;
            const int turn = round * OP_INFLIGHT_MAX + i % OP_INFLIGHT_MAX;
            const int slot = (i + bench.rank * 13) % count;
            struct batch_order order = make(
                    set_of_slot(&bench, &bench.world, slot, set), turn * sets + set);

            order.sequence = (uint64_t)turn;
            bench_make(&bench, &bench.batches[slot], &order);
            bench_start(&bench, &bench.batches[slot]);
        }
        bench_finish(&bench, bench.batches, count);
    }
    bench_close(&bench);
}
