/*
 * What tests of the product rely on beside the order of accesses (test_gpusim_order): the ranges
 * of each kernel, bounds and lifetimes, what a capture forbids, and that no process in which
 * anything was found ends well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/gpu/kernels/kernels.h"
#include "test/gpusim/gpu.h"

/* -------------------------------------------------------------------------- processes */

/* How a child ends that does this, and what it says. */
static int run_child(void (*body)(void), char *text, size_t capacity)
{
    const int said = memfd_create("said", MFD_CLOEXEC);
    int status = 0;
    ssize_t bytes;
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)dup2(said, STDERR_FILENO);
        body();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bytes = pread(said, text, capacity - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    (void)close(said);
    return status;
}

static void report(void)
{
    gpusim_report("something");
}

static uint64_t protected_memory(void)
{
    void *context = NULL;
    uint64_t pointer = 0;

    (void)setenv("GPUSIM_PROTECT", "1", 1);
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 ||
            cuCtxSetCurrent(context) != 0 || cuMemAlloc_v2(&pointer, 8) != 0) {
        _exit(1);
    }
    return pointer;
}

static void touch(void)
{
    *(volatile char *)(uintptr_t)protected_memory() = 1;
}

static void look(void)
{
    char byte;

    if (!gpusim_read(&byte, protected_memory(), 1)) {
        _exit(1);
    }
}

/* Before any other test: a child of a process that has initialised the driver has none. */
UNIT_TEST(test_what_was_found_ends_in_a_failing_status)
{
    char text[4096];

    assert_int_equal(WEXITSTATUS(run_child(report, text, sizeof text)), 97);
    assert_non_null(strstr(text, "1 findings"));
    assert_int_equal(run_child(look, text, sizeof text), 0);
    assert_int_not_equal(run_child(touch, text, sizeof text), 0);
    assert_non_null(strstr(text, "host code touched device memory"));
}

/* ---------------------------------------------------------------------------- kernels */

enum {
    TENSORS = 3,
    ELEMENTS = 3000
};

/* A batch in device memory, packed on one stream; a tensor may lie anywhere. */
static struct {
    void *module, *produce, *pack;
    uint64_t tensors[TENSORS];
    uint64_t slab;
    struct pack_plan plan;
} bench;

static int bench_open(void **state)
{
    (void)state;
    gpu_open(0);
    assert_int_equal(cuModuleLoadData(&bench.module, "any image will do"), 0);
    pack_plan_init(&bench.plan, TUTTI_FLOAT32, TUTTI_FLOAT32);
    for (int i = 0; i < TENSORS; i++) {
        bench.tensors[i] = gpu_alloc(ELEMENTS * sizeof(float));
        pack_plan_add(&bench.plan, bench.tensors[i], ELEMENTS,
                (uint64_t)i * ELEMENTS * sizeof(float));
    }
    bench.slab = gpu_alloc(TENSORS * ELEMENTS * sizeof(float));
    bench.produce = gpu_stream();
    bench.pack = gpu_stream();
    return 0;
}

static int bench_close(void **state)
{
    (void)state;
    gpusim_reset(0);
    gpu_close(0);
    return 0;
}

#define BENCH_TEST(name) UNIT_TEST_WITH(name, bench_open, bench_close)

static void launch_pack(enum pack_direction direction)
{
    static const struct kernel_target target = { .sm_count = 2,
        .parameter_bytes = KERNEL_LARGE_BYTES };
    void *parameters[] = { &bench.plan.args };
    void *function = NULL;
    const struct pack_work work = {
        .direction = direction, .packed = bench.slab, .scale = 0.5, .divisor = 1
    };
    const struct kernel_launch how = pack_launch(&bench.plan, &work, &target);

    assert_int_equal(
            cuModuleGetFunction(&function, bench.module, kernel_name(how.kernel)), 0);
    assert_int_equal(cuLaunchKernel(function, how.grid, 1, 1, how.threads, 1, 1, 0,
                             bench.pack, parameters, NULL),
            0);
}

/* What a launch reads and what it writes, each against a fill that nothing orders. */
BENCH_TEST(test_every_range_of_a_launch_is_watched)
{
    for (int way = PACK_GATHER; way <= PACK_SCATTER; way++) {
        for (int i = 0; i <= TENSORS; i++) {
            const uint64_t last = i < TENSORS
                    ? bench.tensors[i] + ELEMENTS * sizeof(float) - 1
                    : bench.slab + bench.plan.args.pieces[TENSORS - 1].packed;
            char text[512];

            assert_int_equal(cuMemsetD8Async(last, 0, 1, bench.produce), 0);
            launch_pack((enum pack_direction)way);
            gpusim_settle();
            assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
            assert_non_null(strstr(text, "tutti_f32_f32_"));
            assert_int_equal(cuCtxSynchronize(), 0);
        }
    }
}

/* A piece that lies on another device: the launch fails, and with it the context. */
BENCH_TEST(test_a_kernel_reaches_its_own_device_only)
{
    gpu_open(1);
    bench.plan.args.pieces[2].tensor = gpu_alloc(ELEMENTS * sizeof(float));
    gpu_open(0);
    launch_pack(PACK_GATHER);
    assert_int_equal(cuStreamSynchronize(bench.pack), 700);
    assert_true(gpusim_take_reports(NULL, 0) > 0);
    assert_int_equal(cuMemFree_v2(bench.slab), 700); /* it sticks */
    gpu_close(1);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
}

/* ----------------------------------------------------------------------------- memory */

static void expect_report(const char *says)
{
    char text[512];

    gpusim_settle();
    assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, says));
}

UNIT_TEST(test_misuse_of_memory_is_told)
{
    const unsigned char byte = 1;
    void *stream;
    uint64_t memory;

    gpu_open(0);
    stream = gpu_stream();
    memory = gpu_alloc(1000);
    assert_int_equal(cuMemsetD8Async(memory, 0, 1001, stream), 1);
    expect_report("overruns its memory");
    *((volatile unsigned char *)gpusim_at(memory) + 1000) = byte;
    assert_int_equal(cuMemFree_v2(memory), 0);
    expect_report("something wrote 0 bytes behind the end");
    assert_int_equal(cuMemsetD8Async(memory, 0, 1, stream), 1);
    expect_report("uses freed memory");
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuEventRecord(stream, NULL), 400);
    expect_report("an event was used that was destroyed or never made");
    gpu_close(0);
}

/* ---------------------------------------------------------------------------- capture */

static int spoil_by_synchronising(void *stream, void *event)
{
    (void)event;
    return cuStreamSynchronize(stream);
}

static int spoil_by_allocating(void *stream, void *event)
{
    uint64_t pointer;

    (void)stream;
    (void)event;
    return cuMemAlloc_v2(&pointer, 8);
}

/* Any event's: a thread that polls disturbs a capture of another thread as well. */
static int spoil_by_polling(void *stream, void *event)
{
    (void)stream;
    return cuEventQuery(event);
}

/* A stream that is drawn in must be joined again, and nothing may come from outside. */
UNIT_TEST(test_a_capture_is_one_graph_of_its_own)
{
    void *stream, *other, *event, *graph;

    gpu_open(0);
    stream = gpu_stream();
    other = gpu_stream();
    event = gpu_event();
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
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(other), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

UNIT_TEST(test_what_capture_forbids_spoils_it)
{
    int (*const calls[])(void *, void *) = { spoil_by_synchronising,
        spoil_by_allocating, spoil_by_polling };
    void *stream, *event, *graph;
    int status;

    gpu_open(0);
    stream = gpu_stream();
    event = gpu_event();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
        assert_int_equal(calls[i](stream, event), 900);
        assert_int_equal(cuStreamIsCapturing(stream, &status), 0);
        assert_int_equal(status, 2);
        assert_int_equal(cuStreamEndCapture(stream, &graph), 901);
        assert_null(graph);
    }
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}
