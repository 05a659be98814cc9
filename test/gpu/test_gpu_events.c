/*
 * Events: what is behind them on a stream has passed, streams follow them, and streams of the
 * caller that cannot have one are refused.
 */
#include <pthread.h>
#include <string.h>

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

GPU_TEST(test_streams_of_others_are_refused)
{
    void *context = NULL;
    void *stream;

    (void)caller_enter(3);
    stream = caller_stream();
    assert_stream_refused(f->gpu, stream, "is of GPU 3, but this rank's is GPU 1");
    assert_error_has("cudaSetDevice(1)");
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    caller_leave(3);
    assert_int_equal(cuCtxCreate_v2(&context, 0, 1), 0);
    stream = caller_stream();
    assert_stream_refused(f->gpu, stream, "of a context of its own");
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_stream_refused(f->gpu, stream, "is no stream of GPU 1");
    assert_true(gpusim_take_reports(NULL, 0) > 0); /* as a driver may, it found that */
    assert_int_equal(cuCtxDestroy_v2(context), 0);
    assert_int_equal(cuCtxSetCurrent(f->context), 0);
}

/* What is captured goes on; beside a blocking stream the legacy default one cannot be used, too. */
GPU_TEST(test_captures_outlive_what_is_refused)
{
    void *blocking = NULL;
    void *graph = NULL;

    assert_int_equal(cuStreamCreate(&blocking, CU_STREAM_BLOCKING), 0);
    for (int mode = 0; mode <= 2; mode++) {
        void *stream = mode == 2 ? blocking : f->stream;

        assert_int_equal(cuStreamBeginCapture_v2(stream, mode), 0);
        assert_stream_refused(f->gpu, stream, "is being captured in a CUDA graph");
        if (mode == 2) {
            assert_stream_refused(f->gpu, NULL, "the legacy default stream cannot");
        }
        assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
        assert_int_equal(cuGraphDestroy(graph), 0);
    }
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
}

/* Polled by another thread, as the engine does, during a capture that forbids such calls. */
static void *poll(void *arg)
{
    struct fixture *f = arg;
    struct device_event *event = NULL;

    ASSERT_OK(gpu_record(f->gpu, f->gpu->streams[GPU_COMM], &event));
    assert_passes(f->gpu, event);
    ASSERT_OK(gpu_event_wait(f->gpu, event));
    gpu_event_release(f->gpu, event);
    return NULL;
}

GPU_TEST(test_polling_spoils_nobodys_capture)
{
    pthread_t thread;
    void *graph = NULL;

    assert_int_equal(cuStreamBeginCapture_v2(f->stream, 0), 0); /* global */
    assert_int_equal(pthread_create(&thread, NULL, poll, f), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(cuStreamEndCapture(f->stream, &graph), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
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
