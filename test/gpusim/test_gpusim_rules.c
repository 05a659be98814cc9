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
    assert_non_null(strstr(text, "1 findings, 0 of them races"));
    assert_int_equal(run_child(look, text, sizeof text), 0);
    assert_int_not_equal(run_child(touch, text, sizeof text), 0);
    assert_non_null(strstr(text, "host code touched device memory"));
}

/* ---------------------------------------------------------------------------- kernels */

enum {
    TENSORS = 5,
    ELEMENTS = 3000,
    SLAB_BYTES = 1 << 20,
    TABLE_BYTES = 4096
};

static const struct kernel_target target = { .sm_count = 2,
    .parameter_bytes = KERNEL_LARGE_BYTES };

/* A batch in device memory, and a stream for each of its steps. */
struct bench {
    void *module;
    uint64_t tensors[TENSORS];
    uint64_t slab;
    uint64_t table;
    void *produce, *pack;
    void *event;
    struct pack_plan plan;
    uint64_t table_image[TABLE_BYTES / sizeof(uint64_t)];
};

static struct bench bench;

static void bench_open(void)
{
    gpu_open(0);
    memset(&bench, 0, sizeof bench);
    assert_int_equal(cuModuleLoadData(&bench.module, "any image will do"), 0);
    pack_plan_init(&bench.plan, TUTTI_FLOAT32, TUTTI_FLOAT32);
    for (int i = 0; i < TENSORS; i++) {
        bench.tensors[i] = gpu_alloc(ELEMENTS * sizeof(float));
        assert_int_equal(
                pack_plan_add(&bench.plan, bench.tensors[i], ELEMENTS - (uint64_t)i),
                TUTTI_OK);
    }
    bench.slab = gpu_alloc(SLAB_BYTES);
    bench.table = gpu_alloc(TABLE_BYTES);
    bench.produce = gpu_stream();
    bench.pack = gpu_stream();
    bench.event = gpu_event();
}

static void bench_close(void)
{
    assert_int_equal(cuCtxSynchronize(), 0);
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(cuMemFree_v2(bench.tensors[i]), 0);
    }
    assert_int_equal(cuMemFree_v2(bench.slab), 0);
    assert_int_equal(cuMemFree_v2(bench.table), 0);
    assert_int_equal(cuEventDestroy_v2(bench.event), 0);
    assert_int_equal(cuStreamDestroy_v2(bench.produce), 0);
    assert_int_equal(cuStreamDestroy_v2(bench.pack), 0);
    assert_int_equal(cuModuleUnload(bench.module), 0);
    pack_plan_fini(&bench.plan);
    gpu_close(0);
}

static void launch_kernel(struct kernel_launch launch, void *args, void *stream)
{
    void *parameters[] = { args };
    void *function = NULL;

    assert_int_equal(
            cuModuleGetFunction(&function, bench.module, kernel_name(launch.kernel)),
            0);
    assert_int_equal(cuLaunchKernel(function, launch.grid, 1, 1, launch.threads, 1, 1,
                             0, stream, parameters, NULL),
            0);
}

static void launch_pack(enum pack_direction direction, bool has_table)
{
    static union pack_args args;
    const struct pack_work work = { .direction = direction,
        .packed = bench.slab,
        .table = has_table ? bench.table : 0,
        .scale = direction == PACK_GATHER ? 2 : 1,
        .divisor = 1 };
    const struct kernel_launch launch = pack_launch(&bench.plan, &work, &target, &args);

    launch_kernel(launch, &args, bench.pack);
    memset(&args, 0xff, sizeof args); /* parameters were copied */
}

static void upload_table(void *stream)
{
    assert_true(pack_table_bytes(&bench.plan) <= TABLE_BYTES);
    pack_table_write(&bench.plan, bench.table_image);
    assert_int_equal(cuMemcpyHtoDAsync_v2(bench.table, bench.table_image,
                             pack_table_bytes(&bench.plan), stream),
            0);
}

/* A gradient on its stream. */
static void produce(int tensor, unsigned char byte)
{
    assert_int_equal(cuMemsetD8Async(bench.tensors[tensor], byte,
                             ELEMENTS * sizeof(float), bench.produce),
            0);
}

static void link_streams(void *before, void *after)
{
    assert_int_equal(cuEventRecord(bench.event, before), 0);
    assert_int_equal(cuStreamWaitEvent(after, bench.event, 0), 0);
}

/* A tensor that is written while it is packed, and no event between: which one is found. */
static void expect_race_of(int tensor, bool has_table)
{
    char text[512];

    bench_open();
    upload_table(bench.pack);
    for (int i = 0; i < TENSORS; i++) {
        if (i != tensor) {
            produce(i, 0);
        }
    }
    link_streams(bench.produce, bench.pack);
    produce(tensor, 1);
    launch_pack(PACK_GATHER, has_table);
    gpusim_settle();
    assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "tutti_f32_f32_"));
    bench_close();
}

UNIT_TEST(test_every_tensor_of_a_launch_is_watched)
{
    for (int i = 0; i < TENSORS; i++) {
        expect_race_of(i, false);
        expect_race_of(i, true);
    }
}

UNIT_TEST(test_the_packed_buffer_is_watched)
{
    bench_open();
    for (int i = 0; i < TENSORS; i++) {
        produce(i, 0);
    }
    link_streams(bench.produce, bench.pack);
    launch_pack(PACK_GATHER, false);
    assert_int_equal(cuMemsetD8Async(bench.slab + bench.plan.pieces[TENSORS - 1].packed,
                             0, 4, bench.produce),
            0);
    gpusim_settle();
    assert_int_equal(gpusim_take_reports(NULL, 0), 1);
    bench_close();
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

/* A piece that lies on another device: the launch fails, and with it the context. */
UNIT_TEST(test_a_kernel_reaches_its_own_device_only)
{
    uint64_t there;

    gpu_open(1);
    there = gpu_alloc(ELEMENTS * sizeof(float));
    bench_open();
    bench.plan.pieces[2].tensor = there;
    launch_pack(PACK_GATHER, false);
    assert_int_equal(cuStreamSynchronize(bench.pack), 700);
    assert_true(gpusim_take_reports(NULL, 0) > 0);
    assert_int_equal(cuMemFree_v2(bench.slab), 700); /* it sticks */
    gpusim_reset(0);
    gpu_close(0);
    gpu_close(1);
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
