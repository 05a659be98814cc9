/*
 * Order on simulated streams: what waits for what, and what each query says meanwhile.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "test/gpusim/gpu.h"

enum {
    NOT_READY = 600,
    STREAMS = 3
};

UNIT_TEST(test_a_stream_is_asynchronous)
{
    uint64_t pointer;
    unsigned char byte = 0;
    void *stream;

    gpu_open(0);
    stream = gpu_stream();
    pointer = gpu_alloc(1);
    gpusim_hold(stream);
    assert_int_equal(cuMemsetD8Async(pointer, 5, 1, stream), 0);
    gpusim_settle();
    assert_int_equal(cuStreamQuery(stream), NOT_READY);
    assert_int_equal(gpusim_pending(stream), 1);
    gpusim_copy_out(&byte, pointer, 1);
    assert_int_equal(byte, 0xCB);
    gpusim_release(stream);
    gpu_wait(stream);
    assert_int_equal(cuStreamQuery(stream), 0);
    assert_true(gpusim_read(&byte, pointer, 1));
    assert_int_equal(byte, 5);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

UNIT_TEST(test_an_event_orders_two_streams)
{
    uint64_t pointer;
    void *first, *second, *event;
    unsigned char byte = 0;

    gpu_open(0);
    first = gpu_stream();
    second = gpu_stream();
    event = gpu_event();
    pointer = gpu_alloc(1);
    assert_int_equal(cuEventQuery(event), 0); /* never recorded: complete */
    assert_int_equal(cuStreamWaitEvent(second, event, 0), 0);
    gpusim_hold(first);
    assert_int_equal(cuMemsetD8Async(pointer, 1, 1, first), 0);
    assert_int_equal(cuEventRecord(event, first), 0);
    assert_int_equal(cuStreamWaitEvent(second, event, 0), 0);
    assert_int_equal(cuMemsetD8Async(pointer, 2, 1, second), 0);
    gpusim_settle();
    assert_int_equal(cuEventQuery(event), NOT_READY);
    assert_int_equal(cuStreamQuery(second), NOT_READY);
    gpusim_release(first);
    gpu_wait(second);
    assert_int_equal(cuEventQuery(event), 0);
    assert_true(gpusim_read(&byte, pointer, 1));
    assert_int_equal(byte, 2);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    assert_int_equal(cuStreamDestroy_v2(first), 0);
    assert_int_equal(cuStreamDestroy_v2(second), 0);
    gpu_close(0);
}

/* A wait takes the record that is there at the call, not one made later. */
UNIT_TEST(test_a_wait_takes_the_record_of_its_time)
{
    void *first, *second, *event;

    gpu_open(0);
    first = gpu_stream();
    second = gpu_stream();
    event = gpu_event();
    assert_int_equal(cuEventRecord(event, first), 0);
    assert_int_equal(cuStreamWaitEvent(second, event, 0), 0);
    gpu_wait(first);
    gpusim_hold(first);
    assert_int_equal(cuEventRecord(event, first), 0);
    gpu_wait(second);
    assert_int_equal(cuEventQuery(event), NOT_READY);
    gpusim_release(first);
    assert_int_equal(cuEventSynchronize(event), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(first), 0);
    assert_int_equal(cuStreamDestroy_v2(second), 0);
    gpu_close(0);
}

UNIT_TEST(test_the_default_stream_waits_for_blocking_ones)
{
    void *blocking, *other;

    gpu_open(0);
    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    other = gpu_stream();
    gpusim_hold(blocking);
    gpusim_hold(other);
    assert_int_equal(cuLaunchHostFunc(blocking, gpu_nothing, NULL), 0);
    assert_int_equal(cuLaunchHostFunc(other, gpu_nothing, NULL), 0);
    assert_int_equal(cuLaunchHostFunc(NULL, gpu_nothing, NULL), 0);
    gpusim_settle();
    assert_int_equal(cuStreamQuery(NULL), NOT_READY);
    gpusim_release(blocking);
    gpu_wait(NULL);
    assert_int_equal(cuStreamQuery(other), NOT_READY); /* non-blocking: nobody waited */
    gpusim_release(other);
    gpu_wait(other);
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
    assert_int_equal(cuStreamDestroy_v2(other), 0);
    gpu_close(0);
}

UNIT_TEST(test_blocking_streams_wait_for_the_default_one)
{
    void *blocking, *other;

    gpu_open(0);
    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    other = gpu_stream();
    gpusim_hold(NULL);
    assert_int_equal(cuLaunchHostFunc(NULL, gpu_nothing, NULL), 0);
    assert_int_equal(cuLaunchHostFunc(blocking, gpu_nothing, NULL), 0);
    assert_int_equal(cuLaunchHostFunc((void *)2, gpu_nothing, NULL), 0);
    assert_int_equal(cuLaunchHostFunc(other, gpu_nothing, NULL), 0);
    gpu_wait(other);
    gpusim_settle();
    assert_int_equal(cuStreamQuery(blocking), NOT_READY);
    assert_int_equal(cuStreamQuery((void *)2), NOT_READY);
    gpusim_release(NULL);
    gpu_wait(blocking);
    gpu_wait((void *)2);
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
    assert_int_equal(cuStreamDestroy_v2(other), 0);
    gpu_close(0);
}

static void note_order(void *argument)
{
    static atomic_int next;
    int *place = argument;

    *place = atomic_fetch_add(&next, 1);
}

UNIT_TEST(test_host_functions_run_in_order)
{
    int places[STREAMS] = { 0 };
    void *stream;

    gpu_open(0);
    stream = gpu_stream();
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(cuLaunchHostFunc(stream, note_order, &places[i]), 0);
    }
    assert_int_equal(cuStreamDestroy_v2(stream), 0); /* its operations are still done */
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_true(places[0] < places[1] && places[1] < places[2]);
    gpu_close(0);
}

static void call_cuda(void *argument)
{
    *(int *)argument = cuCtxSynchronize();
}

UNIT_TEST(test_a_host_function_must_not_call_cuda)
{
    int result = 0;

    gpu_open(0);
    assert_int_equal(cuLaunchHostFunc(NULL, call_cuda, &result), 0);
    gpu_wait(NULL);
    assert_int_equal(result, 800);
    assert_int_equal(gpusim_take_reports(NULL, 0), 1);
    gpu_close(0);
}

struct freeing {
    void *context;
    uint64_t pointer;
};

static void *free_in_thread(void *argument)
{
    struct freeing *freeing = argument;

    assert_int_equal(cuCtxSetCurrent(freeing->context), 0);
    assert_int_equal(cuMemFree_v2(freeing->pointer), 0);
    return NULL;
}

/* As a real driver may: so a free behind a collective that waits for us hangs here, too. */
UNIT_TEST(test_freeing_waits_for_the_device)
{
    long calls = gpusim_calls("cuMemFree_v2");
    struct freeing freeing = { .context = gpu_open(0) };
    void *stream = gpu_stream();
    pthread_t thread;

    freeing.pointer = gpu_alloc(4);
    gpusim_hold(stream);
    assert_int_equal(cuLaunchHostFunc(stream, gpu_nothing, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, free_in_thread, &freeing), 0);
    while (gpusim_calls("cuMemFree_v2") == calls) {
        gpu_pause();
    }
    /* the call has begun and let the lock go, so it waits */
    assert_true(gpusim_range_is_live(freeing.pointer, 4));
    gpusim_release(stream);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(gpusim_range_is_live(freeing.pointer, 4));
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    gpu_close(0);
}

UNIT_TEST(test_stale_handles_are_refused)
{
    void *stream, *event;

    gpu_open(0);
    stream = gpu_stream();
    event = gpu_event();
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamQuery(stream), 400);
    assert_int_equal(cuEventQuery(event), 400);
    assert_int_equal(cuEventQuery(stream), 400);
    assert_int_equal(cuStreamQuery((void *)&stream), 400);
    assert_int_equal(gpusim_take_reports(NULL, 0), 4);
    gpu_close(0);
}
