/*
 * The life of the GPU backend over the simulated GPU: process sets, tables of many tensors, many
 * batches in flight, slabs that are registered, and failures in the middle. Nothing may be left.
 *
 *     test_gpu_flight CASE RANKS NCCL
 *
 * What a failure is to a program is in test_gpu_failures.c.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "test/gpu/backend.h"
#include "test/gpusim/gpusim_test.h"
#include "test/gpusim/nccl/gpusim_nccl.h"

enum {
    TENSORS = 2,
    COUNT = 71, /* an odd one: parts are padded */
    IN_FLIGHT = 24,
    MANY = 1200
};

/* A sum of float tensors of a set; the member of index i gives i + 1 + element. */
struct sum {
    struct op_run runs[TENSORS];
    struct op_batch batch;
};

static void sum_prepare(struct backend_rank *r, const struct op_set *set,
        bool side_by_side, struct sum *sum)
{
    float host[COUNT];
    unsigned char *block = backend_alloc(r, 4096);

    for (int i = 0; i < COUNT; i++) {
        host[i] = (float)(set->rank + 1 + i);
    }
    for (size_t t = 0; t < TENSORS; t++) {
        unsigned char *tensor =
                side_by_side ? backend_alloc(r, sizeof host) : block + t * 1000;

        backend_write(r, tensor, host, sizeof host);
        sum->runs[t] =
                (struct op_run){ .input = tensor, .output = tensor, .count = COUNT };
    }
    sum->batch = (struct op_batch){ .set = set,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .divisor = set->size,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = sum->runs,
        .run_count = TENSORS,
        .space = OP_DEVICE };
}

static void sum_check(struct backend_rank *r, const struct sum *sum)
{
    const int size = sum->batch.set->size;
    const int ranks = size * (size + 1) / 2;
    float host[COUNT];

    for (size_t t = 0; t < TENSORS; t++) {
        backend_read(r, host, sum->runs[t].output, sizeof host);
        for (int i = 0; i < COUNT; i++) {
            CHECK(host[i] == (float)(ranks + size * i));
        }
    }
}

/* Does a sum where this rank is a member. */
static void sum_do(struct backend_rank *r, const struct op_set *set)
{
    struct sum sum;

    if (set->rank >= 0) {
        sum_prepare(r, set, true, &sum);
        backend_do(r, &sum.batch);
        sum_check(r, &sum);
    }
}

static bool has_split(const struct backend_rank *r)
{
    return r->gpu->nccl->comm_split != NULL;
}

/* ------------------------------------------------------------------------- sets */

/* A set by its members; rank -1 where this rank is none. */
static struct op_set set_of(
        const struct backend_rank *r, uint32_t id, const int *members, int size)
{
    struct op_set set = {
        .id = id, .index = 1, .rank = -1, .size = size, .world_ranks = members
    };

    for (int m = 0; m < size; m++) {
        set.rank = members[m] == r->rank ? m : set.rank;
    }
    return set;
}

/* The world, then all but rank 1, twice; by a split where there is one. */
static void run_sets(struct backend_rank *r)
{
    static const int others[] = { 0, 2 };
    const struct op_set world = backend_set(r);
    const long splits = gpusim_calls("ncclCommSplit");

    backend_meet(r, &world, true);
    sum_do(r, &world);
    for (uint32_t id = 1; id <= 2; id++) {
        const struct op_set set = set_of(r, id, others, 2);

        backend_meet(r, &set, true);
        sum_do(r, &set);
        sum_do(r, &world);
        op_gpu.part(r->state, &set, id + 1);
    }
    backend_barrier(r);
    CHECK((gpusim_calls("ncclCommSplit") > splits) == has_split(r));
    CHECK(gpusim_nccl_live().unnamed == 0);
    /* The next ranks that meet end what has been left. */
    if (r->rank != 1) {
        const struct op_set late = set_of(r, 3, others, 2);

        backend_meet(r, &late, false);
        sum_do(r, &late);
    } else {
        backend_barrier(r);
        backend_barrier(r);
    }
}

/* ----------------------------------------------------------------------- tables */

/* Many tensors, again and again: one launch each way, and no copy after the first time. */
static void run_tables(struct backend_rank *r)
{
    static const char upload[] = "cuMemcpyHtoDAsync_v2";
    const struct op_set world = backend_set(r);
    static struct op_run runs[BACKEND_RANKS_MAX][MANY];
    struct op_run *own = runs[r->rank];
    float *block = backend_alloc(r, MANY * 3 * sizeof(float));
    float host[MANY * 3];
    long uploads = 0;
    struct sum sum;

    for (int i = 0; i < MANY * 3; i++) {
        host[i] = i % 3 == 2 ? -1.0F : (float)(r->rank + 1);
    }
    backend_write(r, block, host, sizeof host);
    for (int i = 0; i < MANY; i++) {
        float *tensor = block + (ptrdiff_t)(i * 3);

        own[i] = (struct op_run){ .input = tensor, .output = tensor, .count = 2 };
    }
    backend_meet(r, &world, true);
    sum_prepare(r, &world, true, &sum);
    sum.batch.runs = own;
    sum.batch.run_count = MANY;
    sum.batch.op = TUTTI_MAX;
    for (int i = 0; i < 5; i++) {
        backend_do(r, &sum.batch);
        backend_barrier(r);
        CHECK(r->counts.launches == 2 * (uint64_t)(i + 1));
        CHECK(i == 0 || gpusim_calls(upload) == uploads);
        uploads = gpusim_calls(upload);
        backend_barrier(r);
    }
    CHECK(uploads == r->world->size);
    backend_read(r, host, block, sizeof host);
    for (int i = 0; i < MANY * 3; i++) {
        CHECK(host[i] == (i % 3 == 2 ? -1.0F : (float)r->world->size));
    }
}

/* ------------------------------------------------------------------------ flight */

/* Many batches of two sets, issued with no wait in between, each on its own tensors. */
static void run_many(struct backend_rank *r)
{
    static const int backwards[] = { 3, 2, 1, 0 };
    const struct op_set world = backend_set(r);
    const struct op_set other = set_of(r, 1, backwards, 4);
    struct sum sums[IN_FLIGHT];
    struct device_event *events[IN_FLIGHT];

    backend_meet(r, &world, true);
    backend_meet(r, &other, true);
    for (int i = 0; i < IN_FLIGHT; i++) {
        sum_prepare(r, i % 3 == 1 ? &other : &world, (i + r->rank) % 2 == 0, &sums[i]);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        events[i] = backend_issue(r, &sums[i].batch);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        backend_pass(r, events[i]);
        sum_check(r, &sums[i]);
    }
    CHECK(r->counts.packed == IN_FLIGHT / 2);
    CHECK(r->counts.in_place == IN_FLIGHT / 2);
}

/* ---------------------------------------------------------------------- failures */

static void quit(struct backend_rank *r, struct device_event *event)
{
    while (!op_gpu.quit(r->state)) {
        clock_sleep_ns(1000000);
    }
    CHECK(event == NULL || r->device.passed(r->device.state, event) != TUTTI_AGAIN);
    r->device.release(r->device.state, event);
}

static void expect_words(const struct backend_rank *r, const char *words)
{
    if (strstr(tutti_last_error(), words) == NULL) {
        backend_check(false, r->rank, __FILE__, __LINE__, words);
    }
}

/* A call is refused: said of which set. */
static void run_refused(struct backend_rank *r)
{
    const struct op_set world = backend_set(r);
    struct device_event *event = NULL;
    struct sum sum;

    backend_meet(r, &world, true);
    sum_do(r, &world);
    sum_prepare(r, &world, false, &sum);
    backend_barrier(r);
    if (r->rank == 0) {
        gpusim_nccl_fail("*:ncclAllReduce:0:2");
    }
    backend_barrier(r);
    CHECK(backend_try_issue(r, &sum.batch, &event) == TUTTI_ERR_SYSTEM);
    expect_words(r, "NCCL cannot put a batch on the GPU for process set 0 on GPU ");
    backend_barrier(r);
    quit(r, event);
}

/* A set's communicator cannot be made. */
static void run_no_meeting(struct backend_rank *r)
{
    static const int backwards[] = { 3, 2, 1, 0 };
    const struct op_set world = backend_set(r);
    const struct op_set other = set_of(r, 1, backwards, 4);

    backend_meet(r, &world, true);
    if (r->rank == 0) {
        gpusim_nccl_fail("*:ncclCommSplit:0:2");
    }
    backend_meet_in_vain(r, &other);
    expect_words(r, "NCCL cannot make a communicator for process set 1 on GPU ");
    backend_barrier(r);
    quit(r, NULL);
}

/* Tasks that were started, and never issued, can be given up. */
static void run_cancel(struct backend_rank *r)
{
    const struct op_set world = backend_set(r);
    struct sum sums[2];
    void *tasks[2];

    for (int i = 0; i < 2; i++) {
        tasks[i] = calloc(1, op_gpu.task_bytes);
    }
    backend_meet(r, &world, true);
    for (int i = 0; i < 2; i++) {
        struct device_event *none = NULL;

        sum_prepare(r, &world, true, &sums[i]);
        sums[i].batch.issued = &none;
        CHECK(op_gpu.start(r->state, tasks[i], &sums[i].batch) == TUTTI_OK);
    }
    for (int i = 0; i < 2; i++) {
        while (!op_gpu.cancel(r->state, tasks[i])) {
            clock_sleep_ns(1000000);
        }
        free(tasks[i]);
    }
    quit(r, NULL);
}

/* A rank whose GPU waits for another rank puts only so much on its streams, and can be stopped. */
static void run_full(struct backend_rank *r)
{
    const struct op_set world = backend_set(r);
    struct device_event *events[1000] = { NULL };
    void *task = calloc(1, op_gpu.task_bytes);
    tutti_status status = TUTTI_OK;
    struct sum sum;
    int issued = 0;

    backend_meet(r, &world, true);
    sum_do(r, &world);
    sum_prepare(r, &world, false, &sum);
    while (r->rank == 0 && status == TUTTI_OK) {
        bool moved = false;

        sum.batch.after = events + issued - 1; /* it is the same tensor again */
        sum.batch.after_count = issued > 0;
        sum.batch.issued = events + issued;
        CHECK(op_gpu.start(r->state, task, &sum.batch) == TUTTI_OK);
        status = op_gpu.step(r->state, task, &moved);
        CHECK(++issued < 1000);
    }
    CHECK(r->rank != 0 || status == TUTTI_AGAIN);
    for (int s = 0; s < GPU_STREAMS; s++) {
        CHECK(gpusim_pending(r->gpu->streams[s]) < 1000);
    }
    while (r->rank == 0 && !op_gpu.cancel(r->state, task)) {
        clock_sleep_ns(1000000);
    }
    quit(r, NULL);
    for (int i = 0; i < issued; i++) {
        r->device.release(r->device.state, events[i]);
    }
    free(task);
}

/* ------------------------------------------------------------------ registration */

/* Bytes from the first member: packed on all ranks, wherever they lie. */
static void broadcast(struct backend_rank *r, const struct op_set *set)
{
    struct op_run runs[TENSORS];
    struct op_batch batch = { .set = set,
        .collective = TUTTI_BROADCAST,
        .dtype = TUTTI_UINT8,
        .op = TUTTI_SUM,
        .divisor = 1,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = runs,
        .run_count = TENSORS,
        .space = OP_DEVICE };
    unsigned char *block = backend_alloc(r, 1024);
    unsigned char host[200];

    memset(host, set->rank == 0 ? 7 : 1, sizeof host);
    for (size_t t = 0; t < TENSORS; t++) {
        void *tensor = set->rank == 1 ? block + t * 512 : backend_alloc(r, sizeof host);

        backend_write(r, tensor, host, sizeof host);
        runs[t] = (struct op_run){ .input = tensor, .output = tensor, .count = 200 };
    }
    backend_do(r, &batch);
    for (size_t t = 0; t < TENSORS; t++) {
        backend_read(r, host, runs[t].output, 200);
        CHECK(host[0] == 7 && host[199] == 7);
    }
}

/*
 * Tensors lie side by side on some ranks and not on others: that all pack them at one place
 * is what the simulated NCCL looks at.
 */
static void run_registered(struct backend_rank *r)
{
    static const int backwards[] = { 3, 2, 1, 0 };
    const struct op_set world = backend_set(r);
    const struct op_set other = set_of(r, 1, backwards, 4);
    const struct op_set again = set_of(r, 2, backwards, 4);
    struct sum sum;

    backend_meet(r, &world, true);
    backend_meet(r, &other, true);
    for (int i = 0; i < 8; i++) {
        sum_prepare(r, i % 2 == 0 ? &world : &other, (i + r->rank) % 3 == 0, &sum);
        backend_do(r, &sum.batch);
        sum_check(r, &sum);
        broadcast(r, i % 2 == 0 ? &world : &other);
    }
    backend_barrier(r);
    /* On 4 ranks 4 times a call of a sum and one of a broadcast in the world, by 4 slabs. */
    CHECK(gpusim_nccl_live().registered_calls == 32);
    CHECK(gpusim_nccl_live().registrations == 16);
    backend_barrier(r);
    op_gpu.part(r->state, &other, again.id);
    backend_meet(r, &again, true);
    sum_do(r, &again);
    backend_barrier(r);
}

/* A rank whose buffer cannot be registered cannot go on: the others would be. */
static void run_unregistered(struct backend_rank *r)
{
    static _Atomic int found;
    const struct op_set world = backend_set(r);
    struct device_event *event;
    struct sum sum;

    backend_meet(r, &world, true);
    sum_prepare(r, &world, true, &sum);
    backend_barrier(r);
    if (r->rank == 0) {
        gpusim_nccl_fail("*:ncclMemAlloc:1:1");
    }
    backend_barrier(r);
    if (backend_try_issue(r, &sum.batch, &event) != TUTTI_OK) {
        expect_words(r, "gpu_register=false does without");
        (void)atomic_fetch_add(&found, 1);
    }
    backend_barrier(r);
    CHECK(atomic_load(&found) == 1);
    quit(r, event);
}

/* -------------------------------------------------------------------------- main */

static const struct {
    const char *name;
    void (*body)(struct backend_rank *r);
    const char *registers;
} cases[] = { { "sets", run_sets, "false" }, { "tables", run_tables, "false" },
    { "cancel", run_cancel, "false" }, { "full", run_full, "false" },
    { "many", run_many, "false" }, { "refused", run_refused, "false" },
    { "no_meeting", run_no_meeting, "false" }, { "registered", run_registered, "true" },
    { "unregistered", run_unregistered, "true" } };

/* What was made is gone when everything is closed. */
static int check_leaks(void)
{
    const struct gpusim_live live = gpusim_live();
    const struct gpusim_nccl_live nccl = gpusim_nccl_live();

    if (live.device_allocations + live.host_allocations + live.streams + live.events +
                    live.modules + live.retained + nccl.comms + nccl.registrations +
                    nccl.allocations !=
            0) {
        (void)fprintf(stderr,
                "left: %zu device, %zu events, %zu communicators, %zu "
                "registrations\n",
                live.device_allocations, live.events, nccl.comms, nccl.registrations);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct backend_world world;
    int64_t size = 0;

    if (argc != 4 || !text_to_int64(argv[2], &size)) {
        return 2;
    }
    world.size = (int)size;
    backend_library(&world, argv[0], argv[3]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            world.body = cases[i].body;
            backend_set_parameter(&world, "gpu_register", cases[i].registers);
        }
    }
    if (world.body == NULL) {
        return 2;
    }
    backend_run(&world);
    return check_leaks();
}
