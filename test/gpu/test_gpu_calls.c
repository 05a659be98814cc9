/*
 * Streams: copies between the device and the host, what is of others and refused, and a device that is
 * lost.
 */
#include "test/gpu/rig.h"

static void assert_stream_refused(struct gpu *gpu, void *stream, const char *says)
{
    struct device_event *event = NULL;
    struct device_event *good = NULL;

    assert_int_equal(gpu_record_caller(gpu, stream, &event), TUTTI_ERR_INVALID);
    assert_null(event);
    assert_error_has("rank 5");
    assert_error_has(says);
    ASSERT_OK(gpu_record(gpu, gpu->streams[GPU_COMM], &good));
    assert_int_equal(gpu_follow_caller(gpu, stream, good), TUTTI_ERR_INVALID);
    assert_error_has(says);
    ASSERT_OK(gpu_alive(gpu));
    gpu_event_release(gpu, good);
}

static void assert_memory_refused(struct gpu *gpu, const char *says)
{
    enum op_space space = OP_HOST;
    uint64_t memory = 0;

    assert_int_equal(cuMemAlloc_v2(&memory, 256), 0);
    assert_int_equal(gpu_memory_look(gpu, (void *)(uintptr_t)memory, 256, &space),
            TUTTI_ERR_INVALID);
    assert_error_has("rank 5");
    assert_error_has(says);
    assert_int_equal(cuMemFree_v2(memory), 0);
}

GPU_TEST(test_what_is_of_others_is_refused)
{
    void *context = NULL;
    void *stream;

    (void)caller_enter(3);
    stream = caller_stream();
    assert_stream_refused(f->gpu, stream, "is of GPU 3, but this rank's is GPU 1");
    assert_error_has("cudaSetDevice(1)");
    assert_memory_refused(f->gpu, "memory of GPU 3, but this rank's is GPU 1");
    assert_error_has("cudaSetDevice(1)");
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    caller_leave(3);
    assert_int_equal(cuCtxCreate_v2(&context, 0, 1), 0);
    stream = caller_stream();
    assert_stream_refused(f->gpu, stream, "of a context of its own");
    assert_memory_refused(f->gpu, "memory of a context of its own");
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_stream_refused(f->gpu, stream, "is no stream of GPU 1");
    assert_true(gpusim_take_reports(NULL, 0) > 0); /* as a driver may, it found that */
    assert_int_equal(cuCtxDestroy_v2(context), 0);
    assert_int_equal(cuCtxSetCurrent(f->context), 0);
}

/* What is captured goes on; beside it the legacy default stream cannot be used, too. */
GPU_TEST(test_captures_outlive_what_is_refused)
{
    void *blocking = NULL;
    void *graph = NULL;

    assert_int_equal(cuStreamCreate(&blocking, CU_STREAM_BLOCKING), 0);
    assert_int_equal(cuStreamBeginCapture_v2(blocking, 0), 0);
    assert_stream_refused(f->gpu, blocking, "is being captured in a CUDA graph");
    assert_stream_refused(f->gpu, NULL, "the legacy default stream cannot");
    assert_int_equal(cuStreamEndCapture(blocking, &graph), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
}

static void expect_lost(struct fixture *f, int error)
{
    struct device_event *event = NULL;
    struct device_event *other = NULL;
    enum op_space space = OP_DEVICE;
    int host = 0;

    ASSERT_OK(gpu_record(f->gpu, f->gpu->streams[GPU_COMM], &event));
    gpusim_fail("cuEventQuery", 1, error);
    assert_int_equal(gpu_passed(f->gpu, event), TUTTI_ERR_SYSTEM);
    assert_error_has("rank 5 has lost GPU 1");
    assert_error_has("could not finish what it was given to do");
    assert_int_equal(gpu_passed(f->gpu, event), TUTTI_ERR_SYSTEM);
    assert_int_equal(gpu_record_caller(f->gpu, f->stream, &other), TUTTI_ERR_SYSTEM);
    assert_int_equal(
            gpu_record(f->gpu, f->gpu->streams[GPU_COPY], &other), TUTTI_ERR_SYSTEM);
    assert_null(gpu_memory_alloc(f->gpu, 4));
    assert_null(gpu_host_alloc(f->gpu, 4));
    assert_int_equal(gpu_memory_look(f->gpu, &host, 4, &space), TUTTI_ERR_SYSTEM);
    assert_error_has("rank 5 has lost GPU 1");
    gpu_event_release(f->gpu, event);
}

/* After these only a new process recovers. */
GPU_TEST(test_a_lost_device_is_told_by_every_call)
{
    static const int errors[] = { CU_ERROR_CONTAINED, CU_ERROR_TENSOR_LEAK,
        CU_ERROR_ILLEGAL_ADDRESS };

    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        expect_lost(f, errors[i]);
        assert_error_has(i == 2 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "compute-sanitizer");
        gpu_close(f->gpu);
        f->gpu = rig_open(&f->rig);
    }
}

/* ----------------------------------------------------------------------- copies */

/* A copy of fresh memory, which goes with the GPU. */
static struct device_copy copy_of(struct fixture *f, enum device_way way)
{
    void *host = gpu_host_alloc(f->gpu, 5000);
    void *memory = gpu_memory_alloc(f->gpu, 5000);

    return way == DEVICE_TO_HOST
            ? (struct device_copy){ .to = host, .from = memory, .bytes = 5000 }
            : (struct device_copy){ .to = memory, .from = host, .bytes = 5000 };
}

/* By the caller: of what a copy reads, before it, and of what one has written, behind it. */
static void fill(const struct fixture *f, const void *memory)
{
    assert_int_equal(
            cuMemsetD8Async((uint64_t)(uintptr_t)memory, 1, 5000, f->stream), 0);
}

/* What comes back does not queue behind what still waits for its tensors. */
GPU_TEST(test_the_ways_do_not_wait_for_each_other)
{
    const struct device d = gpu_device(f->gpu);
    const struct device_copy there = copy_of(f, DEVICE_TO_HOST);
    const struct device_copy back = copy_of(f, HOST_TO_DEVICE);
    struct device_event *written = NULL;
    struct device_event *copied = NULL;
    struct device_event *returned = NULL;

    gpusim_hold(f->stream);
    fill(f, there.from);
    ASSERT_OK(gpu_record(f->gpu, f->stream, &written));
    ASSERT_OK(d.copy(d.state, DEVICE_TO_HOST, &there, 1, &written, 1, &copied));
    ASSERT_OK(d.copy(d.state, HOST_TO_DEVICE, &back, 1, NULL, 0, &returned));
    ASSERT_OK(gpu_event_wait(f->gpu, returned));
    assert_int_equal(d.passed(d.state, copied), TUTTI_AGAIN);
    fill(f, back.to);
    gpusim_release(f->stream);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    ASSERT_OK(gpu_event_wait(f->gpu, copied));
    d.release(d.state, written);
    d.release(d.state, copied);
    d.release(d.state, returned);
}

static tutti_status copy_two(struct fixture *f)
{
    const struct device d = gpu_device(f->gpu);
    struct device_event *done = NULL;
    const struct device_copy copies[] = { copy_of(f, DEVICE_TO_HOST),
        copy_of(f, DEVICE_TO_HOST) };

    return d.copy(d.state, DEVICE_TO_HOST, copies, 2, NULL, 0, &done);
}

/*
 * What was begun cannot be taken back: only behind the first copy the device is lost. The event of
 * what has failed is used again.
 */
GPU_TEST(test_an_error_of_a_copy)
{
    const long made = gpusim_calls("cuEventCreate");
    struct device_event *event = NULL;

    for (int i = 0; i < 4; i++) {
        gpusim_fail("cuMemcpyDtoHAsync_v2", 1, CU_ERROR_OUT_OF_MEMORY);
        assert_int_equal(copy_two(f), TUTTI_ERR_NO_MEMORY);
        assert_error_has("cannot copy between host and device memory");
        gpusim_fail("cuEventRecord", 1, CU_ERROR_OUT_OF_MEMORY);
        assert_int_equal(gpu_record(f->gpu, f->stream, &event), TUTTI_ERR_NO_MEMORY);
        gpusim_fail("cuEventRecord", 1, CU_ERROR_OUT_OF_MEMORY);
        assert_int_equal(
                gpu_record_caller(f->gpu, f->stream, &event), TUTTI_ERR_NO_MEMORY);
    }
    assert_in_range(gpusim_calls("cuEventCreate") - made, 0, 3);
    gpusim_fail("cuMemcpyDtoHAsync_v2", 2, CU_ERROR_OUT_OF_MEMORY);
    assert_int_equal(copy_two(f), TUTTI_ERR_SYSTEM);
    assert_error_has("rank 5 has lost GPU 1");
    assert_error_has("copy between host and device memory");
}
