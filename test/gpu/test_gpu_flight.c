/*
 * The life of the GPU backend over the simulated GPU: process sets, the order of streams,
 * tables of many tensors, and failures.
 *
 *     test_gpu_flight CASE RANKS NCCL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "test/gpu/backend.h"
#include "test/gpusim/gpusim_test.h"
#include "test/gpusim/nccl/gpusim_nccl.h"

#define COUNT 100
#define MANY 1200

/* A sum of floats of a set; the members have index + 1. */
struct sum {
    struct op_run run;
    struct op_batch batch;
};

static void sum_prepare(
        struct backend_rank *r, const struct op_set *set, struct sum *sum)
{
    float host[COUNT];

    for (int i = 0; i < COUNT; i++) {
        host[i] = (float)(set->rank + 1);
    }
    sum->run.input = backend_alloc(r, sizeof host);
    sum->run.output = (void *)(uintptr_t)sum->run.input; // NOLINT
    sum->run.count = COUNT;
    backend_write(r, sum->run.output, host, sizeof host);
    sum->batch = (struct op_batch){ .set = set,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .divisor = set->size,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = &sum->run,
        .run_count = 1,
        .space = OP_DEVICE };
}

static void sum_check(struct backend_rank *r, const struct sum *sum, float expected)
{
    float host[COUNT];

    backend_read(r, host, sum->run.output, sizeof host);
    for (int i = 0; i < COUNT; i++) {
        CHECK(host[i] == expected);
    }
}

static void sum_do(struct backend_rank *r, const struct op_set *set)
{
    struct sum sum;

    if (set->rank < 0) {
        return;
    }
    sum_prepare(r, set, &sum);
    backend_do(r, &sum.batch);
    sum_check(r, &sum, (float)set->size * (float)(set->size + 1) / 2);
}

/* ------------------------------------------------------------------------- sets */

/* The world, then all but rank 1, twice; by a split where there is one. */
static void run_sets(struct backend_rank *r)
{
    static const int others[] = { 0, 2 };
    const struct op_set world = backend_set(r);
    const long splits = gpusim_calls("ncclCommSplit");

    backend_meet(r, &world, true);
    sum_do(r, &world);
    for (uint32_t id = 1; id <= 2; id++) {
        const struct op_set set = { .id = id,
            .index = 1,
            .rank = r->rank == 1 ? -1 : r->rank / 2,
            .size = 2,
            .world_ranks = others };

        backend_meet(r, &set, true);
        sum_do(r, &set);
        sum_do(r, &world);
        op_gpu.part(r->state, &set, id + 1);
    }
    backend_barrier(r);
    CHECK((gpusim_calls("ncclCommSplit") > splits) ==
            (r->gpu->nccl->comm_split != NULL));
    /* The next ranks that meet end what has been left. */
    if (r->rank != 1) {
        const struct op_set late = {
            .id = 3, .index = 1, .rank = r->rank / 2, .size = 2, .world_ranks = others
        };

        backend_meet(r, &late, false);
        sum_do(r, &late);
    } else {
        backend_barrier(r);
        backend_barrier(r);
    }
}

/* ------------------------------------------------------------------------ order */

/* The input comes on the caller's stream, late; the next iteration is behind it, too. */
static void run_order(struct backend_rank *r)
{
    const struct op_set world = backend_set(r);
    cu_stream stream = NULL;
    struct device_event *after = NULL;
    struct device_event *event;
    struct sum sum;
    float value = 0;

    backend_meet(r, &world, true);
    sum_prepare(r, &world, &sum);
    sum.batch.op = TUTTI_MAX;
    CHECK(gpu_enter(r->gpu) == TUTTI_OK);
    CHECK(r->gpu->cuda->stream_create(&stream, CU_STREAM_NONBLOCKING, 0) == CU_SUCCESS);
    gpusim_hold(stream);
    for (size_t i = 0; i < COUNT * sizeof(float); i++) {
        CHECK(r->gpu->cuda->memset_d8_async((cu_pointer)(uintptr_t)sum.run.input + i,
                      (unsigned char)(i % 4 == 3 ? 0x40 + r->rank : 0), 1,
                      stream) == CU_SUCCESS);
    }
    CHECK(r->device.record(r->device.state, stream, &after) == TUTTI_OK);
    sum.batch.after = &after;
    sum.batch.after_count = 1;
    event = backend_issue(r, &sum.batch);
    CHECK(r->device.passed(r->device.state, event) == TUTTI_AGAIN);
    backend_barrier(r);
    gpusim_release(stream);
    backend_pass(r, event);
    ((unsigned char *)&value)[3] = (unsigned char)(0x40 + r->world->size - 1);
    sum_check(r, &sum, value);
    r->device.release(r->device.state, after);
    CHECK(r->gpu->cuda->stream_destroy(stream) == CU_SUCCESS);
    gpu_leave(r->gpu);
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
    sum_prepare(r, &world, &sum);
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

/* --------------------------------------------------------------------- failures */

/* Watches until there is an error, which must have these words; then quits. */
static void expect_failure(struct backend_rank *r, const char *words)
{
    const int64_t deadline = clock_ns() + 30000000000;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK) {
        CHECK(clock_ns() < deadline);
        clock_sleep_ns(1000000);
        status = op_gpu.watch(r->state);
    }
    CHECK(strstr(tutti_last_error(), words) != NULL);
}

static void quit(struct backend_rank *r)
{
    const int64_t deadline = clock_ns() + 30000000000;

    while (!op_gpu.quit(r->state)) {
        CHECK(clock_ns() < deadline);
        clock_sleep_ns(1000000);
    }
}

/*
 * An error that NCCL finds later, be it while the batch is issued, fails the rank that finds
 * it; all abort, and it ends.
 */
static void run_async_error(struct backend_rank *r)
{
    const struct op_set world = backend_set(r);
    struct device_event *event;
    tutti_status status;
    struct sum sum;

    backend_meet(r, &world, true);
    sum_do(r, &world);
    backend_barrier(r);
    if (r->rank == 0) {
        gpusim_nccl_fail("0:async:1:6");
    }
    backend_barrier(r);
    sum_prepare(r, &world, &sum);
    status = backend_try_issue(r, &sum.batch, &event);
    CHECK(r->rank == 0 || status == TUTTI_OK);
    if (status != TUTTI_OK) {
        CHECK(strstr(tutti_last_error(), "process set 0") != NULL);
    } else if (r->rank == 0) {
        expect_failure(r, "process set 0");
    }
    backend_barrier(r);
    quit(r);
    CHECK(event == NULL || r->device.passed(r->device.state, event) != TUTTI_AGAIN);
    r->device.release(r->device.state, event);
}

/* A rank that does not take part is noticed by the others, and they get away. */
static void run_timeout(struct backend_rank *r)
{
    const struct op_set world = backend_set(r);
    struct device_event *event = NULL;
    struct sum sum;

    backend_meet(r, &world, true);
    sum_do(r, &world);
    if (r->rank == 0) {
        sum_prepare(r, &world, &sum);
        event = backend_issue(r, &sum.batch);
        expect_failure(r, "gpu_timeout_s=1.5");
    }
    backend_barrier(r);
    quit(r);
    CHECK(event == NULL || r->device.passed(r->device.state, event) != TUTTI_AGAIN);
    r->device.release(r->device.state, event);
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

        sum_prepare(r, &world, &sums[i]);
        sums[i].batch.issued = &none;
        CHECK(op_gpu.start(r->state, tasks[i], &sums[i].batch) == TUTTI_OK);
    }
    for (int i = 0; i < 2; i++) {
        while (!op_gpu.cancel(r->state, tasks[i])) {
            clock_sleep_ns(1000000);
        }
        free(tasks[i]);
    }
    quit(r);
}

/* A communicator that is never ready. */
static void run_no_meeting(struct backend_rank *r)
{
    const struct op_set world = backend_set(r);

    if (r->rank == 0) {
        gpusim_nccl_fail("*:init:0:1");
    }
    backend_meet_in_vain(r, &world);
    CHECK(strstr(tutti_last_error(), "have not met") != NULL);
    quit(r);
}

/* ------------------------------------------------------------------------- main */

static const struct {
    const char *name;
    void (*body)(struct backend_rank *r);
    const char *timeout;
} cases[] = { { "sets", run_sets, "60" }, { "order", run_order, "60" },
    { "tables", run_tables, "60" }, { "async_error", run_async_error, "60" },
    { "timeout", run_timeout, "1.5" }, { "cancel", run_cancel, "60" },
    { "no_meeting", run_no_meeting, "0.3" } };

/* What was made is gone when everything is closed. */
static int check_leaks(void)
{
    const struct gpusim_live live = gpusim_live();

    if (live.device_allocations + live.host_allocations + live.streams + live.events +
                    live.modules + live.retained !=
            0) {
        (void)fprintf(stderr, "left: %zu device, %zu host, %zu streams, %zu events\n",
                live.device_allocations, live.host_allocations, live.streams,
                live.events);
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
            backend_set_parameter(&world, "gpu_timeout_s", cases[i].timeout);
        }
    }
    if (world.body == NULL) {
        return 2;
    }
    backend_run(&world);
    return check_leaks();
}
