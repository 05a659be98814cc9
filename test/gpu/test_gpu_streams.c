/*
 * Tensors made and used on streams, from end to end: nothing here waits on the host but where
 * it says so, streams are late at random, and the simulator accuses whoever reads or writes
 * with nothing that orders it.
 */
#include <stdio.h>
#include <string.h>

#include "ops/gpu/nccl.h"
#include "test/gpu/ends.h"

enum {
    COUNT = 300,
    LAYERS = 5,
    LARGE = 2 << 20, /* alone in its batch: SCRIPT_ALONE_BYTES */
    STEPS = 12,
    WARM = 7 /* of them, until a step is like any other */
};

/* ---------------------------------------------------------------------- a trainer */

/**
 * Gradients, their sums, and what the updates saw of them. Each layer has a stream of its own, and
 * the rank's waits for all of them, and they for that by an event of the caller's.
 */
struct trainer {
    void *streams[LAYERS];
    float *gradients[LAYERS];
    float *sums[LAYERS];
    void *event; /* behind the update */
    float *seen; /* pinned: of each step, of each layer, COUNT                    */
    tutti_request requests[LAYERS];
};

static void trainer_init(struct ends_rank *r, struct trainer *trainer)
{
    for (int l = 0; l < LAYERS; l++) {
        CHECK(cuStreamCreate(&trainer->streams[l], 1) == CUDA_SUCCESS);
        trainer->gradients[l] = ends_alloc(r, COUNT);
        trainer->sums[l] = ends_alloc(r, COUNT);
    }
    CHECK(cuEventCreate(&trainer->event, 2) == CUDA_SUCCESS);
    trainer->seen = ends_pinned(r, (int64_t)STEPS * LAYERS * COUNT);
}

static float *seen_at(const struct trainer *trainer, int step, int layer)
{
    return trainer->seen + (ptrdiff_t)(step * LAYERS + layer) * COUNT;
}

/* Different on each rank, of each layer, in each step. */
static float gradient_of(int rank, int step, int layer)
{
    return (float)((rank + 1) * (1 + layer + LAYERS * step));
}

/* The host waits here, for all streams, and looks at what they have seen. */
static void trainer_end(struct ends_rank *r, struct trainer *trainer)
{
    gpusim_settle();
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    for (int l = 0; l < LAYERS; l++) {
        for (int step = 0; step < STEPS; step++) {
            ends_expect(r, seen_at(trainer, step, l),
                    ends_total(r) * gradient_of(0, step, l), COUNT);
        }
        CHECK(cuStreamDestroy_v2(trainer->streams[l]) == CUDA_SUCCESS);
    }
    CHECK(cuEventDestroy_v2(trainer->event) == CUDA_SUCCESS);
}

/* As one group. */
static void backward(struct ends_rank *r, struct trainer *trainer, int step)
{
    char name[16];

    CHECK(tutti_group_begin(r->t) == TUTTI_OK);
    for (int l = 0; l < LAYERS; l++) {
        (void)snprintf(name, sizeof name, "layer %d", l);
        ends_fill(r, trainer->gradients[l], gradient_of(r->rank, step, l), COUNT,
                trainer->streams[l]);
        trainer->requests[l] = ends_sum(r, name, trainer->gradients[l],
                trainer->sums[l], COUNT, trainer->streams[l]);
    }
    CHECK(tutti_group_end(r->t) == TUTTI_OK);
}

static void update(struct ends_rank *r, struct trainer *trainer, int step)
{
    for (int l = 0; l < LAYERS; l++) {
        ends_take(r, seen_at(trainer, step, l), trainer->sums[l], COUNT, r->stream);
        /* The input is the stream's again. */
        ends_fill(r, trainer->gradients[l], -1, COUNT, r->stream);
    }
    CHECK(cuEventRecord(trainer->event, r->stream) == CUDA_SUCCESS);
    for (int l = 0; l < LAYERS; l++) {
        CHECK(cuStreamWaitEvent(trainer->streams[l], trainer->event, 0) ==
                CUDA_SUCCESS);
    }
}

static void even_step(struct ends_rank *r, struct trainer *trainer, int step)
{
    backward(r, trainer, step);
    CHECK(tutti_wait_stream_all(r->t, LAYERS, trainer->requests, r->stream,
                  ENDS_PATIENCE, NULL) == TUTTI_OK);
    update(r, trainer, step);
}

/* ------------------------------------------------------------------ how far ahead */

/* So many passes of the engine, in which a sum does not end. */
static void expect_idle(struct ends_rank *r, tutti_request *request)
{
    for (int i = 0; i < 1000; i++) {
        CHECK(tutti_test(r->t, request) == TUTTI_AGAIN);
    }
}

/*
 * A stream that waits takes no more launches after some, and then the host would wait in CUDA: so
 * many batches are issued ahead, and no more. The rest follows.
 */
static void run_full(struct ends_rank *r)
{
    enum {
        SUMS = 200,
        AHEAD = 128
    };
    tutti_request requests[SUMS];
    float *memory = ends_alloc(r, SUMS);
    float host[SUMS];
    long before;

    ends_whole_sum(r, "first");
    ends_meet(r);
    before = gpusim_calls("ncclAllReduce");
    ends_meet(r);
    ends_fill(r, memory, (float)(r->rank + 1), SUMS, r->stream);
    gpusim_hold(r->stream);
    for (int i = 0; i < SUMS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "sum%d", i);
        requests[i] = ends_sum(r, name, memory + i, memory + i, 1, r->stream);
    }
    while (gpusim_calls("ncclAllReduce") - before < AHEAD * r->size) {
        CHECK(tutti_test(r->t, &requests[SUMS - 1]) == TUTTI_AGAIN);
    }
    expect_idle(r, &requests[SUMS - 1]);
    ends_meet(r);
    CHECK(gpusim_calls("ncclAllReduce") - before == AHEAD * r->size);
    ends_meet(r);
    gpusim_release(r->stream);
    CHECK(tutti_wait_all(r->t, SUMS, requests, TUTTI_FOREVER, NULL) == TUTTI_OK);
    CHECK(gpusim_read(host, (uint64_t)(uintptr_t)memory, sizeof host));
    ends_expect(r, host, ends_total(r), SUMS);
}

/* -------------------------------------------------------------- sets and many tensors */

/*
 * The world, then all but rank 1, twice, with communicators of their own that are split from
 * the world's, have names, and are ended when the ranks meet again. What they are given is
 * registered, or not.
 */
static void run_sets(struct ends_rank *r)
{
    static const int others[] = { 0, 2 };
    const bool registers = strcmp(r->job->what->name, "registered_sets") == 0;
    tutti_process_set set;

    CHECK(ends_sum_in(r, "world", TUTTI_WORLD, ends_total(r)) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(tutti_process_set_create(r->t, others, 2, &set) == TUTTI_OK);
        for (int times = 0; times < 2 && r->rank != 1; times++) {
            CHECK(ends_sum_in(r, "members", set, 4) == TUTTI_OK);
        }
        CHECK(ends_sum_in(r, "world", TUTTI_WORLD, ends_total(r)) == TUTTI_OK);
        CHECK(tutti_process_set_destroy(r->t, set) == TUTTI_OK);
    }
    ends_meet(r);
    CHECK(gpusim_calls("ncclCommSplit") == 2 * r->size);
    CHECK(gpusim_nccl_live().unnamed == 0);
    CHECK(gpusim_nccl_live().comms ==
            (size_t)r->size + 2); /* the first set's are gone */
    CHECK((long)gpusim_nccl_live().registered_calls ==
            (registers ? 3L * r->size : 0)); /* those of the world */
    CHECK((gpusim_nccl_live().registrations > 0) == registers);
    ends_meet(r);
}

/*
 * Ranks 0 and 2 have a batch on their GPUs when all are to make the world's communicator: NCCL
 * might wait for it there, so they come only when it is over.
 */
static void run_meeting(struct ends_rank *r)
{
    static const int others[] = { 0, 2 };
    tutti_options options = ends_on(r->stream);
    float *memory = ends_alloc(r, 2 * COUNT);
    float host[COUNT];
    tutti_request request;
    long before;

    CHECK(tutti_process_set_create(r->t, others, 2, &options.process_set) == TUTTI_OK);
    if (r->rank != 1) {
        CHECK(ends_sum_in(r, "members", options.process_set, 4) == TUTTI_OK);
        gpusim_hold(r->stream);
        CHECK(tutti_allreduce_async(r->t, "held", memory, memory, COUNT, TUTTI_FLOAT32,
                      TUTTI_SUM, &options, &request) == TUTTI_OK);
        CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    }
    ends_meet(r);
    before = gpusim_calls("ncclCommInitRankConfig");
    ends_meet(r);
    ends_fill(r, memory + COUNT, (float)(r->rank + 1), COUNT, r->stream);
    request = ends_sum(r, "world", memory + COUNT, memory + COUNT, COUNT, r->stream);
    while (gpusim_calls("ncclCommInitRankConfig") == before) { /* rank 1 is there */
        CHECK(tutti_test(r->t, &request) == TUTTI_AGAIN);
    }
    expect_idle(r, &request);
    ends_meet(r);
    CHECK(gpusim_calls("ncclCommInitRankConfig") == before + 1);
    ends_meet(r);
    gpusim_release(r->stream);
    CHECK(tutti_wait(r->t, &request, ENDS_PATIENCE) == TUTTI_OK);
    CHECK(gpusim_read(host, (uint64_t)(uintptr_t)(memory + COUNT), sizeof host));
    ends_expect(r, host, ends_total(r), COUNT);
}

enum {
    HELD = 8 /* batches at once on streams: more than there are slabs */
};

/* Two launches each way; then more batches than there are slabs, which must wait for each other's. */
static void run_many_tensors(struct ends_rank *r)
{
    float *blocks[HELD];
    float *seen = ends_pinned(r, ENDS_MANY_FLOATS);
    void *other = NULL;

    CHECK(cuStreamCreate(&other, 1) == CUDA_SUCCESS);
    for (int i = 0; i < HELD; i++) {
        blocks[i] = ends_alloc(r, ENDS_MANY_FLOATS);
    }
    ends_sum_many(r, blocks[0], -1, r->stream);
    ends_take(r, seen, blocks[0], ENDS_MANY_FLOATS, r->stream);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    ends_expect_many(r, seen, -1);
    CHECK(ends_stats(r).device_batches == 1 && ends_stats(r).device_launches == 2 * 2);
    gpusim_hold(r->stream);
    for (int i = 0; i < HELD; i++) {
        ends_sum_many(r, blocks[i], i, other);
    }
    gpusim_release(r->stream);
    CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
    for (int i = 0; i < HELD; i++) {
        ends_take(r, seen, blocks[i], ENDS_MANY_FLOATS, other);
        CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
        ends_expect_many(r, seen, i);
    }
    CHECK(cuStreamDestroy_v2(other) == CUDA_SUCCESS);
}

/* --------------------------------------------------------------------- what it costs */

/* Calls that make the host wait, or that are for start-up alone. */
static const char *const never[] = { "cuEventSynchronize", "cuStreamSynchronize",
    "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemFree_v2", "cuMemFreeHost", "cuEventCreate",
    "cuEventDestroy_v2", "cuStreamCreateWithPriority", "ncclMemAlloc", "ncclMemFree",
    "cuMemcpyHtoDAsync_v2", "cuModuleLoadData" };

enum {
    NEVER = sizeof never / sizeof *never
};

/*
 * More steps in flight than will be measured, so that there are as many events and slabs as
 * are needed then; and the end of the last, so that they are there to be used again. The host is
 * ahead of a GPU that has not begun, under the same names.
 */
static void warm_up(struct ends_rank *r, struct trainer *trainer)
{
    gpusim_hold(r->stream);
    for (int step = 0; step < WARM - 1; step++) {
        even_step(r, trainer, step);
    }
    gpusim_release(r->stream);
    backward(r, trainer, WARM - 1);
    CHECK(tutti_wait_all(r->t, LAYERS, trainer->requests, ENDS_PATIENCE, NULL) ==
            TUTTI_OK);
    update(r, trainer, WARM - 1);
}

/*
 * An even step is one batch, packed by one kernel and unpacked by another; the host
 * waits for nothing, and nothing is made.
 */
static void run_even_cost(struct ends_rank *r)
{
    struct trainer trainer;
    tutti_stats before;
    tutti_stats after;
    long calls[NEVER];
    long launches;

    trainer_init(r, &trainer);
    warm_up(r, &trainer);
    ends_meet(r);
    before = ends_stats(r);
    launches = gpusim_calls("cuLaunchKernel");
    for (int i = 0; i < NEVER; i++) {
        calls[i] = gpusim_calls(never[i]);
    }
    ends_meet(r);
    for (int step = WARM; step < STEPS; step++) {
        even_step(r, &trainer, step);
    }
    ends_meet(r);
    after = ends_stats(r);
    for (int i = 0; i < NEVER; i++) {
        if (gpusim_calls(never[i]) != calls[i]) {
            (void)fprintf(stderr, "%s was called %ld times\n", never[i],
                    gpusim_calls(never[i]) - calls[i]);
            CHECK(false && "an even step does without it");
        }
    }
    launches = gpusim_calls("cuLaunchKernel") - launches;
    CHECK(after.announced_by_bit - before.announced_by_bit == LAYERS * (STEPS - WARM));
    CHECK(after.device_batches - before.device_batches == STEPS - WARM);
    CHECK(after.device_packed - before.device_packed == STEPS - WARM);
    CHECK(after.device_launches - before.device_launches == 2 * (STEPS - WARM));
    CHECK(launches == 2L * (STEPS - WARM) * r->size);
    CHECK(after.device_staged == 0);
    trainer_end(r, &trainer);
}

/* ------------------------------------------------------------------------- registered */

/* A sum that is seen on the host; true if it was packed. */
static bool sum_at(struct ends_rank *r, const char *name, float *tensor, float *pinned)
{
    const uint64_t packed = ends_stats(r).device_packed;

    ends_whole_sum_of(r, name, tensor, pinned, LARGE);
    return ends_stats(r).device_packed != packed;
}

/* An alltoall and a scaled reduce, of which ranks give registered memory, or not. */
static void run_apart(struct ends_rank *r, float *tensor, float *other, float *pinned)
{
    tutti_options options = ends_on(r->stream);
    tutti_request requests[2];

    ends_fill(r, tensor, (float)(r->rank + 1), LARGE, r->stream);
    CHECK(tutti_alltoall_async(r->t, "all", tensor, other, r->size, 1, NULL, NULL,
                  TUTTI_FLOAT32, &options, &requests[0]) == TUTTI_OK);
    CHECK(tutti_wait_stream(r->t, &requests[0], r->stream, ENDS_PATIENCE) == TUTTI_OK);
    ends_take(r, pinned, other, r->size, r->stream);
    options.prescale = 2;
    CHECK(tutti_reduce_async(r->t, "reduce", tensor, tensor, LARGE, TUTTI_FLOAT32,
                  TUTTI_SUM, 1, &options, &requests[1]) == TUTTI_OK);
    CHECK(tutti_wait_stream(r->t, &requests[1], r->stream, ENDS_PATIENCE) == TUTTI_OK);
    ends_take(r, pinned + r->size, tensor, r->size, r->stream);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    for (int i = 0; i < r->size; i++) {
        ends_expect(r, pinned + i, (float)(i + 1), 1);
    }
    ends_expect(r, pinned + r->size,
            r->rank == 1 ? 2 * ends_total(r) : (float)(r->rank + 1), r->size);
}

/*
 * Large tensors of tutti_alloc() are registered as they lie, if they lie alike on all ranks;
 * what NCCL must not be given so is found by the simulated one.
 */
static void run_arena(struct ends_rank *r)
{
    float *pinned = ends_pinned(r, LARGE);
    float *own = ends_alloc(r, LARGE);
    void *pieces[2];
    float *first;
    float *second;
    float *moved;

    for (int i = 0; i < 2; i++) {
        CHECK(tutti_alloc(r->t, LARGE * sizeof(float), TUTTI_DEVICE, &pieces[i]) ==
                TUTTI_OK);
    }
    first = pieces[0];
    second = pieces[1];
    moved = r->rank == 1 ? second : first;
    CHECK(!sum_at(r, "own", own, pinned));
    CHECK(gpusim_nccl_live().registered_calls == 0);
    ends_meet(r);
    for (int i = 0; i < 4; i++) {
        CHECK(!sum_at(r, "first", first, pinned));
        CHECK(!sum_at(r, "second", second, pinned));
    }
    ends_meet(r);
    CHECK(gpusim_nccl_live().registered_calls == (size_t)(8 * r->size));
    for (int i = 0; i < 3; i++) {
        CHECK(sum_at(r, "apart", moved, pinned));
        CHECK(sum_at(r, "first", moved, pinned)); /* it had a number */
    }
    CHECK(sum_at(r, "first", first, pinned));
    CHECK(!sum_at(r, "second", second, pinned));
    run_apart(r, own, second, pinned);
    run_apart(r, r->rank == 1 ? own : first, second, pinned);
    run_apart(r, first, r->rank == 1 ? own : second, pinned);
    CHECK(tutti_free(r->t, first) == TUTTI_OK && tutti_free(r->t, second) == TUTTI_OK);
}

/* ------------------------------------------------- a communicator of the program's own */

/*
 * On the same device as tutti's. The simulated device runs one collective at a time, so an order that
 * differs between ranks is one that hangs.
 */
GPUSIM_API nccl_result ncclGetUniqueId(struct nccl_id *id);
GPUSIM_API nccl_result ncclCommInitRank(
        nccl_comm *comm, int ranks, struct nccl_id id, int rank);
GPUSIM_API nccl_result ncclAllReduce(const void *input, void *output, size_t count,
        nccl_dtype dtype, nccl_op op, nccl_comm comm, cu_stream stream);
GPUSIM_API nccl_result ncclCommDestroy(nccl_comm comm);

/* Long enough for an engine to issue what nobody has asked for; ranks take turns. */
static void dawdle(const struct ends_rank *r, int step)
{
    for (int i = 0; i < 5 && (r->rank + step) % r->size == 0; i++) {
        ends_nap();
    }
}

static void call_nccl(struct ends_rank *r, nccl_comm comm, float *mine)
{
    ends_fill(r, mine, (float)(r->rank + 1), COUNT, r->stream);
    CHECK(ncclAllReduce(mine, mine, COUNT, NCCL_FLOAT32, NCCL_SUM, comm, r->stream) ==
            NCCL_SUCCESS);
}

/* The program's call is between its submission and its wait: on each rank it comes first. */
static void run_between(struct ends_rank *r)
{
    static struct nccl_id id;
    float *mine = ends_alloc(r, COUNT);
    float *tensor = ends_alloc(r, COUNT);
    float *all_seen = ends_pinned(r, (int64_t)2 * STEPS * COUNT);
    nccl_comm comm = NULL;

    CHECK(r->rank != 0 || ncclGetUniqueId(&id) == NCCL_SUCCESS);
    ends_meet(r);
    CHECK(ncclCommInitRank(&comm, r->size, id, r->rank) == NCCL_SUCCESS);
    for (int step = 0; step < STEPS; step++) {
        float *seen = all_seen + (ptrdiff_t)(2 * step) * COUNT;
        tutti_request request;

        ends_fill(r, tensor, (float)(r->rank + 1 + step), COUNT, r->stream);
        request = ends_sum(r, "x", tensor, tensor, COUNT, r->stream);
        dawdle(r, step);
        call_nccl(r, comm, mine);
        ends_take(r, seen, mine, COUNT, r->stream);
        dawdle(r, step + 1);
        CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
        ends_take(r, seen + COUNT, tensor, COUNT, r->stream);
        call_nccl(r, comm, mine);
    }
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    for (int step = 0; step < STEPS; step++) {
        const float *seen = all_seen + (ptrdiff_t)(2 * step) * COUNT;

        ends_expect(r, seen, ends_total(r), COUNT);
        ends_expect(r, seen + COUNT, ends_total(r) + (float)(step * r->size), COUNT);
    }
    CHECK(ncclCommDestroy(comm) == NCCL_SUCCESS);
}

/* ------------------------------------------------------------------------------ main */

const struct ends_case cases_streams[] = {
    { .name = "full", .body = run_full, .parameters = "gpu_fusion_bytes=1" },
    { .name = "even_cost", .body = run_even_cost, .parameters = "" },
    { .name = "sets", .body = run_sets, .parameters = "" },
    { .name = "registered_sets", .body = run_sets, .parameters = "gpu_register=true" },
    { .name = "meeting", .body = run_meeting, .parameters = "gpu_connect=use" },
    { .name = "many_tensors", .body = run_many_tensors, .parameters = "" },
    { .name = "arena", .body = run_arena, .parameters = "gpu_register=true" },
    { .name = "between", .body = run_between, .parameters = "issue=caller" },
    { .name = NULL },
};
