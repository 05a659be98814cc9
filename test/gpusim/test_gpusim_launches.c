/*
 * Kernels of the simulated GPU: found by name, launched with copies of their parameters,
 * checked by the ranges that they name, and capture, which only counts them.
 */
#include <stdlib.h>

#include "test/gpusim/gpu.h"

enum {
    COUNT = 1000,
    TENSORS = 10000,
    TENSOR_BYTES = 64
};

/* Gathers pieces: table and destination lie in device memory. */
struct piece {
    uint64_t from;
    uint64_t bytes;
};

static const size_t gather_parameters[] = { sizeof(uint64_t), sizeof(uint64_t),
    sizeof(int) };

static void gather_ranges(
        const struct gpusim_launch *launch, struct gpusim_accesses *accesses)
{
    uint64_t table = *(uint64_t *)launch->parameters[0];
    uint64_t to = *(uint64_t *)launch->parameters[1];
    int count = *(int *)launch->parameters[2];
    const struct piece *pieces = gpusim_at(table);

    gpusim_reads(accesses, table, (size_t)count * sizeof *pieces);
    for (int i = 0; i < count; i++) {
        gpusim_reads(accesses, pieces[i].from, pieces[i].bytes);
        gpusim_writes(accesses, to, pieces[i].bytes);
        to += pieces[i].bytes;
    }
}

static void gather_body(const struct gpusim_launch *launch)
{
    const struct piece *pieces =
            (void *)(uintptr_t) * (uint64_t *)launch->parameters[0];
    char *to = (void *)(uintptr_t) * (uint64_t *)launch->parameters[1];

    for (int i = 0; i < *(int *)launch->parameters[2]; i++) {
        memcpy(to, (void *)(uintptr_t)pieces[i].from, pieces[i].bytes);
        to += pieces[i].bytes;
    }
}

static const struct gpusim_kernel gather = {
    .name = "gather",
    .parameter_bytes = gather_parameters,
    .parameter_count = 3,
    .ranges = gather_ranges,
    .body = gather_body,
    .max_threads = 256,
};

static void *load(const char *name)
{
    void *library, *kernel, *function;

    gpusim_kernel_register(&gather);
    assert_int_equal(
            cuLibraryLoadData(&library, "image", NULL, NULL, 0, NULL, NULL, 0), 0);
    assert_int_equal(cuLibraryGetKernel(&kernel, library, name), 0);
    assert_int_equal(cuKernelGetFunction(&function, kernel), 0);
    return function;
}

/* What is launched with: gone, and overwritten, when the call has returned. */
struct arguments {
    uint64_t table, to;
    int count;
};

static int launch(void *function, void *stream, uint64_t table, uint64_t to, int count)
{
    struct arguments *arguments = malloc(sizeof *arguments);
    void *parameters[] = { &arguments->table, &arguments->to, &arguments->count };
    int result;

    *arguments = (struct arguments){ .table = table, .to = to, .count = count };
    result = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
    /* through a volatile pointer, so that no compiler leaves it out before free() */
    for (size_t i = 0; i < sizeof *arguments; i++) {
        ((volatile char *)arguments)[i] = 0;
    }
    free(arguments);
    return result;
}

UNIT_TEST(test_a_kernel_gets_copies_of_its_parameters)
{
    struct piece pieces[2];
    void *function, *stream;
    uint64_t a, table, to;
    char bytes[8];

    gpu_open(0);
    function = load("gather");
    stream = gpu_stream();
    a = gpu_alloc(8);
    to = gpu_alloc(8);
    table = gpu_alloc(sizeof pieces);
    assert_true(gpusim_write(a, "abcdefgh", 8));
    pieces[0] = (struct piece){ .from = a + 4, .bytes = 4 };
    pieces[1] = (struct piece){ .from = a, .bytes = 3 };
    assert_true(gpusim_write(table, pieces, sizeof pieces));
    gpusim_hold(stream);
    assert_int_equal(launch(function, stream, table, to, 2), 0);
    gpusim_release(stream);
    gpu_wait(stream);
    assert_true(gpusim_read(bytes, to, 8));
    assert_memory_equal(bytes, "efghabc\xCB", 8);
    assert_int_equal(cuMemFree_v2(a), 0);
    assert_int_equal(cuMemFree_v2(to), 0);
    assert_int_equal(cuMemFree_v2(table), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

UNIT_TEST(test_a_bad_address_in_a_table_is_an_error_of_the_device)
{
    struct piece piece = { .bytes = 9 };
    void *function, *stream;
    uint64_t table, to;
    char text[256];

    gpu_open(0);
    function = load("gather");
    stream = gpu_stream();
    piece.from = gpu_alloc(8);
    to = gpu_alloc(16);
    table = gpu_alloc(sizeof piece);
    assert_true(gpusim_write(table, &piece, sizeof piece));
    assert_int_equal(launch(function, stream, table, to, 1), 0);
    assert_int_equal(cuStreamSynchronize(stream), 700);
    assert_int_equal(gpusim_take_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "gather overruns its memory: 9 bytes at offset 0"));
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

UNIT_TEST(test_memory_of_another_device_is_out_of_reach)
{
    struct piece piece = { .bytes = 8 };
    void *function, *stream;
    uint64_t table, to;

    gpu_open(1);
    piece.from = gpu_alloc(8);
    gpu_open(0);
    function = load("gather");
    stream = gpu_stream();
    to = gpu_alloc(8);
    table = gpu_alloc(sizeof piece);
    assert_true(gpusim_write(table, &piece, sizeof piece));
    assert_int_equal(launch(function, stream, table, to, 1), 0);
    assert_int_equal(cuStreamSynchronize(stream), 700);
    assert_int_equal(gpusim_take_reports(NULL, 0), 1);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
}

UNIT_TEST(test_the_table_itself_is_checked)
{
    struct piece *pinned;
    void *function, *stream, *other;
    uint64_t table, to;

    gpu_open(0);
    function = load("gather");
    stream = gpu_stream();
    other = gpu_stream();
    to = gpu_alloc(8);
    table = gpu_alloc(sizeof *pinned);
    assert_int_equal(cuMemHostAlloc((void **)&pinned, sizeof *pinned, 0), 0);
    *pinned = (struct piece){ .from = to, .bytes = 8 };
    assert_int_equal(cuMemcpyHtoDAsync_v2(table, pinned, sizeof *pinned, other), 0);
    gpusim_settle(); /* it is there, but nothing says so to the kernel's stream */
    assert_int_equal(launch(function, stream, table, to, 1), 0);
    gpusim_settle();
    assert_int_equal(gpusim_take_races(NULL, 0), 1);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuMemFreeHost(pinned), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuStreamDestroy_v2(other), 0);
    gpu_close(0);
}

UNIT_TEST(test_bad_launches_are_refused)
{
    uint64_t zero = 0;
    int count = 0;
    void *parameters[] = { &zero, &zero, &count };
    void *function, *library, *kernel;

    gpu_open(0);
    function = load("gather");
    assert_int_equal(
            cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL), 1);
    assert_int_equal(
            cuLaunchKernel(function, 1, 1, 1, 257, 1, 1, 0, NULL, parameters, NULL), 1);
    assert_int_equal(
            cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    assert_int_equal(
            cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 65536, NULL, parameters, NULL),
            1);
    assert_int_equal(
            cuLaunchKernel(&zero, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), 400);
    assert_int_equal(cuModuleLoadData(&library, ""), 200);
    assert_int_equal(cuModuleLoadData(&library, NULL), 1);
    assert_int_equal(cuModuleLoadData(&library, "x"), 0);
    assert_int_equal(cuModuleGetFunction(&kernel, library, "no such kernel"), 500);
    assert_int_equal(cuModuleGetFunction(&kernel, library, "gather"), 0);
    assert_int_equal(cuModuleUnload(library), 0);
    assert_int_equal(
            cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), 400);
    gpu_close(0);
}

UNIT_TEST(test_the_nth_kernel_fails)
{
    void *function, *stream;
    uint64_t table, to;

    gpu_open(0);
    function = load("gather");
    stream = gpu_stream();
    to = gpu_alloc(8);
    table = gpu_alloc(8);
    gpusim_fail("kernel", 2, 716);
    assert_int_equal(launch(function, stream, table, to, 0), 0);
    assert_int_equal(cuStreamSynchronize(stream), 0);
    assert_int_equal(launch(function, stream, table, to, 0), 0);
    assert_int_equal(cuStreamSynchronize(stream), 716);
    assert_int_equal(launch(function, stream, table, to, 0), 716);
    assert_int_equal(gpusim_reports(), 0); /* asked for, so nothing is wrong */
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

UNIT_TEST(test_capture_counts_and_does_not_run)
{
    void *function, *stream, *other, *event, *graph;
    uint64_t table, to;
    size_t nodes = 0;
    int status = -1;
    char byte;

    gpu_open(0);
    function = load("gather");
    stream = gpu_stream();
    other = gpu_stream();
    event = gpu_event();
    to = gpu_alloc(8);
    table = gpu_alloc(8);
    assert_int_equal(cuStreamIsCapturing(stream, &status), 0);
    assert_int_equal(status, 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 1), 0);
    assert_int_equal(cuStreamIsCapturing(stream, &status), 0);
    assert_int_equal(status, 1);
    assert_int_equal(launch(function, stream, table, to, 0), 0);
    assert_int_equal(cuMemsetD8Async(to, 1, 8, stream), 0);
    assert_int_equal(cuEventRecord(event, stream), 0);
    assert_int_equal(cuStreamWaitEvent(other, event, 0), 0); /* drawn in */
    assert_int_equal(cuMemsetD8Async(to, 2, 8, other), 0);
    assert_int_equal(cuEventRecord(event, other), 0);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), 0);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuGraphGetNodes(graph, NULL, &nodes), 0);
    assert_int_equal(nodes, 3);
    gpusim_copy_out(&byte, to, 1);
    assert_int_equal((unsigned char)byte, 0xCB);
    assert_int_equal(cuStreamIsCapturing(other, &status), 0);
    assert_int_equal(status, 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuStreamDestroy_v2(other), 0);
    gpu_close(0);
}

static int spoil_by_query(void *stream, void *event)
{
    (void)event;
    return cuStreamQuery(stream);
}

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

UNIT_TEST(test_what_capture_forbids_spoils_it)
{
    int (*const calls[])(void *, void *) = { spoil_by_query, spoil_by_synchronising,
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
        assert_int_equal(cuStreamQuery(stream), 0);
    }
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

UNIT_TEST(test_other_rules_of_capture)
{
    void *stream, *blocking, *event, *graph;
    int mode = 2, status;

    gpu_open(0);
    stream = gpu_stream();
    event = gpu_event();
    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    assert_int_equal(cuStreamBeginCapture_v2(NULL, 0), 900);
    /* work outside cannot be waited for */
    assert_int_equal(cuEventRecord(event, stream), 0);
    assert_int_equal(cuStreamBeginCapture_v2(blocking, 0), 0);
    assert_int_equal(cuStreamWaitEvent(blocking, event, 0), 905);
    assert_int_equal(cuStreamEndCapture(blocking, &graph), 901);
    /* the default stream cannot be used beside a captured blocking one */
    assert_int_equal(cuStreamBeginCapture_v2(blocking, 0), 0);
    assert_int_equal(cuStreamIsCapturing(NULL, &status), 906);
    assert_int_equal(cuLaunchHostFunc(NULL, gpu_nothing, NULL), 906);
    assert_int_equal(cuStreamEndCapture(blocking, &graph), 901);
    /* a captured event says nothing, and a stream that was drawn in must be joined */
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(cuStreamBeginCapture_v2(blocking, 2), 0);
    assert_int_equal(cuEventRecord(event, blocking), 0);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), 0);
    assert_int_equal(cuLaunchHostFunc(stream, gpu_nothing, NULL), 0);
    assert_int_equal(cuStreamEndCapture(blocking, &graph), 904);
    assert_int_equal(cuStreamBeginCapture_v2(blocking, 2), 0);
    assert_int_equal(cuEventRecord(event, blocking), 0);
    assert_int_equal(cuEventQuery(event), 907);
    assert_int_equal(cuStreamEndCapture(blocking, &graph), 901);
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(mode, 2);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
    gpu_close(0);
}
