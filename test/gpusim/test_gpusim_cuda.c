/*
 * What tests of the product rely on: a race is reported exactly when there is one, the ranges of
 * each kernel are watched, bounds and lifetimes, and what a capture forbids. That no process in which
 * anything was found ends well is seen by test_gpusim_nccl.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/gpu/kernels/kernels.h"
#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"
#include "test/unit/unit.h"

/* -------------------------------------------------------------------------- processes */

static void open_gpu(int device)
{
    void *context = NULL;

    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
}

static uint64_t alloc(size_t bytes)
{
    uint64_t pointer = 0;

    assert_int_equal(cuMemAlloc_v2(&pointer, bytes), 0);
    return pointer;
}

/* Before any other test: a child of a process that has initialised the driver has none. */
UNIT_TEST(test_memory_of_a_device_is_not_the_hosts)
{
    int status = 0;
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)setenv("GPUSIM_PROTECT", "1", 1);
        open_gpu(0);
        *(volatile char *)(uintptr_t)alloc(8) = 1;
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/* ------------------------------------------------------------------------------ bench */

enum {
    STREAMS = 4,
    BUFFERS = 6,
    ELEMENTS = 3000,
    BYTES = ELEMENTS * sizeof(float)
};

/* Device 0, with non-blocking streams. */
static struct {
    void *stream[STREAMS];
    void *event[STREAMS];
    uint64_t buffer[BUFFERS];
} bench;

static int begin(void **state)
{
    (void)state;
    open_gpu(0);
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(cuStreamCreate(&bench.stream[i], 1), 0);
        assert_int_equal(cuEventCreate(&bench.event[i], 2), 0);
    }
    for (int i = 0; i < BUFFERS; i++) {
        bench.buffer[i] = alloc(BYTES);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    gpusim_reset(0);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_int_equal(gpusim_take_reports(NULL, 0), 0);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, begin, end)

static void fill(uint64_t to, size_t bytes, void *stream)
{
    assert_int_equal(cuMemsetD8Async(to, 1, bytes, stream), 0);
}

static void copy(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    assert_int_equal(cuMemcpyDtoDAsync_v2(to, from, bytes, stream), 0);
}

/* What is said of the work until now; the first finding names these. */
static void expect_reports(long reports, const char *newer, const char *older)
{
    char text[512];

    gpusim_settle();
    assert_int_equal(gpusim_take_reports(text, sizeof text), reports);
    assert_true(strstr(text, newer) != NULL && strstr(text, older) != NULL);
}

/* -------------------------------------------------------------------- random programs */

/*
 * A second, slower rule says which operations are ordered: each keeps the set of all that happened
 * before it, itself included. A race is two operations on the same bytes, neither in the other's.
 */
enum {
    OPS = 60,
    HOST = STREAMS /* an access of the host instead of a stream's */
};

struct step {
    uint64_t before; /* a set */
    int stream;
    int to, from; /* buffers; from -1: a fill */
    uint64_t at, bytes; /* the same part of both    */
};

struct program {
    uint64_t seed, draws;
    unsigned careful; /* of 100 edges that are needed, so many are made */
    int count;
    struct step steps[OPS];
    uint64_t streams[STREAMS]; /* sets: what is before the stream's next operation */
    uint64_t host;
};

static unsigned draw(struct program *program, unsigned below)
{
    return (unsigned)(gpusim_seeded(program->seed, ++program->draws) % below);
}

static bool conflict(const struct step *a, const struct step *b)
{
    const bool meet = a->at < b->at + b->bytes && b->at < a->at + a->bytes;

    return meet && (a->to == b->to || a->to == b->from || a->from == b->to);
}

/* Orders the stream's next operation after all that another stream has. */
static void make_edge(struct program *program, int from, int stream)
{
    const unsigned kind = draw(program, stream == HOST ? 2 : 3);

    if (kind == 0) {
        assert_int_equal(cuStreamSynchronize(bench.stream[from]), 0);
    } else {
        assert_int_equal(cuEventRecord(bench.event[from], bench.stream[from]), 0);
        assert_int_equal(kind == 1
                        ? cuEventSynchronize(bench.event[from])
                        : cuStreamWaitEvent(bench.stream[stream], bench.event[from], 0),
                0);
    }
    if (kind == 2) {
        program->streams[stream] |= program->streams[from];
    } else {
        program->host |= program->streams[from];
    }
}

/* What is before an access of the stream, or of the host, now. */
static uint64_t before(const struct program *program, int stream)
{
    return program->host | (stream == HOST ? 0 : program->streams[stream]);
}

/* True when a conflict stays without order. */
static bool order_step(struct program *program, struct step *step)
{
    bool races = false;

    for (int i = program->count - 1; i >= 0; i--) {
        if (conflict(step, &program->steps[i]) &&
                (before(program, step->stream) >> i & 1) == 0 &&
                draw(program, 100) < program->careful) {
            make_edge(program, program->steps[i].stream, step->stream);
        }
    }
    step->before = before(program, step->stream) | (uint64_t)1 << program->count;
    *(step->stream == HOST ? &program->host : &program->streams[step->stream]) =
            step->before;
    for (int i = 0; i < program->count; i++) {
        races = races ||
                (conflict(step, &program->steps[i]) && (step->before >> i & 1) == 0);
    }
    return races;
}

static bool run_step(struct program *program)
{
    static const char bytes[128];
    struct step *step = &program->steps[program->count];
    bool races;

    *step = (struct step){
        .stream = (int)draw(program, STREAMS + 1),
        .to = (int)draw(program, BUFFERS),
        .from = (int)draw(program, BUFFERS + 3) - 3,
        .at = draw(program, 64),
        .bytes = 1 + draw(program, 64),
    };
    if (step->from < 0 || step->from == step->to || step->stream == HOST) {
        step->from = -1;
    }
    races = order_step(program, step);
    if (step->stream == HOST) {
        assert_true(
                gpusim_write(bench.buffer[step->to] + step->at, bytes, step->bytes));
    } else if (step->from < 0) {
        fill(bench.buffer[step->to] + step->at, step->bytes,
                bench.stream[step->stream]);
    } else {
        copy(bench.buffer[step->to] + step->at, bench.buffer[step->from] + step->at,
                step->bytes, bench.stream[step->stream]);
    }
    program->count++;
    return races;
}

TEST(test_a_race_is_reported_exactly_when_there_is_one)
{
    int racy = 0, programs = 200;

    for (int seed = 0; seed < programs; seed++) {
        struct program program = { .seed = (uint64_t)seed,
            .careful = seed % 2 == 0 ? 99 : 90 };
        bool races = false;

        while (program.count < OPS) {
            races = run_step(&program) || races;
        }
        assert_int_equal(cuCtxSynchronize(), 0);
        if ((gpusim_take_reports(NULL, 0) > 0) != races) {
            fail_msg("seed %d: race %s", seed, races ? "missed" : "invented");
        }
        racy += races ? 1 : 0;
    }
    assert_in_range(racy, programs / 10, programs - programs / 10);
}

/* ------------------------------------------------------------------------- other order */

/* The driver may wait when memory is freed, but does not promise it. */
TEST(test_freeing_what_is_in_use_is_found)
{
    copy(bench.buffer[1], bench.buffer[0], BYTES, bench.stream[0]);
    assert_int_equal(cuMemFree_v2(bench.buffer[0]), 0);
    expect_reports(1, "cuMemFree", "cuMemcpyDtoDAsync_v2");
}

TEST(test_the_default_stream_orders_implicitly)
{
    void *blocking;

    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    fill(bench.buffer[0], BYTES, blocking);
    fill(bench.buffer[0], BYTES, NULL);
    fill(bench.buffer[0], BYTES, blocking);
    expect_reports(0, "", "");
    fill(bench.buffer[0], BYTES, bench.stream[0]);
    expect_reports(1, "cuMemsetD8Async", "cuMemsetD8Async");
}

/* ---------------------------------------------------------------------------- kernels */

/* Of the first buffers, with the slab in the last one. */
static void launch_pack(enum pack_direction direction, int pieces, uint64_t slab)
{
    static const struct kernel_target target = { .sm_count = 2,
        .parameter_bytes = KERNEL_LARGE_BYTES };
    static struct pack_plan plan;
    void *parameters[] = { &plan.args };
    void *module, *function;
    const struct pack_work work = {
        .direction = direction, .packed = slab, .scale = 0.5, .divisor = 1
    };
    struct kernel_launch how;

    pack_plan_init(&plan, TUTTI_FLOAT32, TUTTI_FLOAT32);
    for (int i = 0; i < pieces; i++) {
        pack_plan_add(&plan, bench.buffer[i], ELEMENTS / 4, (uint64_t)i * BYTES / 4);
    }
    how = pack_launch(&plan, &work, &target);
    assert_int_equal(cuModuleLoadData(&module, "any image will do"), 0);
    assert_int_equal(
            cuModuleGetFunction(&function, module, kernel_name(how.kernel)), 0);
    assert_int_equal(cuLaunchKernel(function, how.grid, 1, 1, how.threads, 1, 1, 0,
                             bench.stream[0], parameters, NULL),
            0);
}

/* What a launch reads and what it writes, each against a fill that nothing orders. */
TEST(test_every_range_of_a_launch_is_watched)
{
    for (int way = PACK_GATHER; way <= PACK_SCATTER; way++) {
        for (int i = 0; i <= 3; i++) {
            gpusim_hold(bench.stream[0]);
            launch_pack((enum pack_direction)way, 3, bench.buffer[3]);
            fill(bench.buffer[i] + BYTES / 4 - 1, 1, bench.stream[1]);
            gpusim_release(bench.stream[0]);
            expect_reports(1, "tutti_f32_f32_", "cuMemsetD8Async");
            assert_int_equal(cuCtxSynchronize(), 0);
        }
    }
}

/* The slab lies on another device: the launch fails, and with it the context. */
TEST(test_a_kernel_reaches_its_own_device_only)
{
    uint64_t slab;

    open_gpu(1);
    slab = alloc(BYTES);
    open_gpu(0);
    launch_pack(PACK_GATHER, 1, slab);
    assert_int_equal(cuStreamSynchronize(bench.stream[0]), 700);
    expect_reports(1, "touches memory of device 1", "tutti_f32_f32_");
    assert_int_equal(cuMemFree_v2(slab), 700); /* it sticks */
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
}

/* ----------------------------------------------------------------------------- memory */

TEST(test_misuse_of_memory_is_told)
{
    const uint64_t memory = bench.buffer[0];

    assert_int_equal(cuMemsetD8Async(memory, 0, BYTES + 1, bench.stream[0]), 1);
    expect_reports(1, "overruns its memory", "cuMemsetD8Async");
    *((volatile unsigned char *)gpusim_at(memory) + BYTES) = 1;
    assert_int_equal(cuMemFree_v2(memory), 0);
    expect_reports(1, "something wrote 0 bytes behind the end", "");
    assert_int_equal(cuMemsetD8Async(memory, 0, 1, bench.stream[0]), 1);
    expect_reports(1, "uses freed memory", "cuMemsetD8Async");
    assert_int_equal(cuEventDestroy_v2(bench.event[0]), 0);
    assert_int_equal(cuEventRecord(bench.event[0], NULL), 400);
    expect_reports(1, "an event was used that was destroyed or never made", "");
}

/* ---------------------------------------------------------------------------- capture */

/* A stream that is drawn in must be joined again, and nothing may come from outside. */
TEST(test_a_capture_is_one_graph_of_its_own)
{
    void *const stream = bench.stream[0], *const other = bench.stream[1];
    void *const event = bench.event[0];
    void *graph;

    for (int joins = 0; joins < 2; joins++) {
        assert_int_equal(cuStreamBeginCapture_v2(stream, 2), 0);
        assert_int_equal(cuEventRecord(event, stream), 0);
        assert_int_equal(cuStreamWaitEvent(other, event, 0), 0);
        assert_int_equal(cuEventRecord(event, other), 0);
        assert_int_equal(joins ? cuStreamWaitEvent(stream, event, 0) : 0, 0);
        assert_int_equal(cuStreamEndCapture(stream, &graph), joins ? 0 : 904);
    }
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuEventRecord(event, other), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 2), 0);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), 905);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 901);
}

/* Any event is forbidden: a thread that polls disturbs a capture of another thread as well. */
static int forbidden(int call)
{
    uint64_t pointer;

    return call == 0    ? cuStreamSynchronize(bench.stream[0])
            : call == 1 ? cuMemAlloc_v2(&pointer, 8)
                        : cuEventQuery(bench.event[1]);
}

TEST(test_what_capture_forbids_spoils_it)
{
    void *graph;
    int status;

    for (int call = 0; call < 3; call++) {
        assert_int_equal(cuStreamBeginCapture_v2(bench.stream[0], 0), 0);
        assert_int_equal(forbidden(call), 900);
        assert_int_equal(cuStreamIsCapturing(bench.stream[0], &status), 0);
        assert_int_equal(status, 2);
        assert_int_equal(cuStreamEndCapture(bench.stream[0], &graph), 901);
        assert_null(graph);
    }
}
