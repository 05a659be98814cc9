/*
 * Devices, contexts, and what becomes of everything when a context ends or fails.
 */
#include "test/gpusim/gpu.h"

enum {
    DESTROYED = 709,
    INVALID_CONTEXT = 201
};

UNIT_TEST(test_devices_say_who_they_are)
{
    char name[64], pci[16], other[16];
    unsigned char uuid[16], other_uuid[16];
    int count = 0, value = -1;

    gpu_open(0);
    assert_int_equal(cuDeviceGetCount(&count), 0);
    assert_int_equal(count, 4);
    assert_int_equal(cuDeviceGetName(name, sizeof name, 3), 0);
    assert_string_equal(name, "Simulated GPU (gpusim 3)");
    assert_int_equal(cuDeviceGetPCIBusId(pci, sizeof pci, 0), 0);
    assert_int_equal(cuDeviceGetPCIBusId(other, sizeof other, 1), 0);
    assert_string_equal(pci, "0000:17:00.0");
    assert_string_not_equal(pci, other);
    assert_string_equal(gpusim_device_pci(1), other);
    assert_int_equal(cuDeviceGetUuid(uuid, 0), 0);
    assert_int_equal(cuDeviceGetUuid(other_uuid, 1), 0);
    assert_memory_not_equal(uuid, other_uuid, sizeof uuid);
    assert_int_equal(cuDeviceGetAttribute(&value, 75, 0), 0);
    assert_int_equal(value, 9);
    assert_int_equal(cuDeviceGetAttribute(&value, 33, 1), 0);
    assert_int_equal(value, 0x27);
    assert_int_equal(cuDeviceGetAttribute(&value, 0, 0), 1);
    assert_int_equal(cuDeviceGetAttribute(&value, 16, 4), 101);
    gpu_close(0);
}

UNIT_TEST(test_the_primary_context_counts_its_uses)
{
    void *first = NULL, *second = NULL;
    unsigned flags;
    unsigned long long id;
    int active = -1;

    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&first, 1), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&second, 1), 0);
    assert_ptr_equal(first, second);
    assert_int_equal(gpusim_live().retained, 2);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
    assert_int_equal(cuDevicePrimaryCtxGetState(1, &flags, &active), 0);
    assert_int_equal(active, 1);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
    assert_int_equal(cuDevicePrimaryCtxGetState(1, &flags, &active), 0);
    assert_int_equal(active, 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), INVALID_CONTEXT);
    assert_int_equal(cuCtxGetId(first, &id), INVALID_CONTEXT);
}

UNIT_TEST(test_calls_need_a_context)
{
    void *context, *current = &context;
    uint64_t pointer;
    int device = -1;

    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuMemAlloc_v2(&pointer, 8), INVALID_CONTEXT);
    assert_int_equal(cuCtxPopCurrent_v2(&current), INVALID_CONTEXT);
    context = gpu_open(2);
    assert_int_equal(gpusim_current_device(), 2);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuCtxGetDevice(&device), 0);
    assert_int_equal(device, 2);
    assert_int_equal(cuCtxPopCurrent_v2(&current), 0);
    assert_ptr_equal(current, context);
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, context);
    gpu_close(2);
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    assert_null(current);
}

/* What cudaDeviceReset() does to everybody else in the process. */
UNIT_TEST(test_after_a_reset_everything_is_refused)
{
    void *context = gpu_open(0), *stream = gpu_stream(), *event = gpu_event();
    uint64_t pointer = gpu_alloc(16), other;
    unsigned long long id, id_after;

    assert_int_equal(cuCtxGetId(context, &id), 0);
    gpusim_hold(stream);
    assert_int_equal(cuMemsetD8Async(pointer, 1, 16, stream), 0);
    assert_int_equal(cuEventRecord(event, stream), 0);
    gpusim_reset(0);

    assert_int_equal(cuCtxGetId(context, &id_after), INVALID_CONTEXT);
    assert_int_equal(cuMemAlloc_v2(&other, 8), DESTROYED);
    assert_int_equal(cuStreamQuery(stream), DESTROYED);
    assert_int_equal(cuStreamSynchronize(stream), DESTROYED);
    assert_int_equal(cuEventQuery(event), DESTROYED);
    assert_false(gpusim_range_is_live(pointer, 16));
    assert_int_equal(gpusim_live().device_allocations, 0);

    /* somebody else goes on with the same handle; what is old stays dead */
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxGetId(context, &id_after), 0);
    assert_true(id_after != id);
    assert_int_equal(cuStreamQuery(stream), DESTROYED);
    assert_int_equal(cuEventQuery(event), DESTROYED);
    assert_int_equal(cuMemAlloc_v2(&other, 8), 0);
    assert_int_equal(cuMemFree_v2(other), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), DESTROYED);
    assert_int_equal(cuEventDestroy_v2(event), DESTROYED);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    gpu_close(0);
    assert_int_equal(gpusim_reports(), 0);
}

UNIT_TEST(test_a_foreign_context_is_seen)
{
    void *primary = gpu_open(0), *event = gpu_event(), *foreign = NULL, *stream,
         *of = NULL;
    uint64_t pointer;

    assert_int_equal(cuCtxCreate_v2(&foreign, 0, 0), 0);
    stream = gpu_stream();
    pointer = gpu_alloc(8);
    assert_int_equal(
            cuPointerGetAttributes(1, (int[]){ 1 }, (void *[]){ &of }, pointer), 0);
    assert_ptr_equal(of, foreign);
    assert_int_equal(cuCtxPopCurrent_v2(NULL), 0);
    assert_int_equal(cuStreamGetCtx(stream, &of), 0);
    assert_ptr_equal(of, foreign);
    assert_int_equal(cuStreamGetCtx(NULL, &of), 0);
    assert_ptr_equal(of, primary);
    assert_int_equal(cuEventRecord(event, stream), 400);
    assert_int_equal(cuEventRecord(event, NULL), 0);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), 0);
    assert_int_equal(cuCtxDestroy_v2(foreign), 0);
    assert_int_equal(cuStreamQuery(stream), DESTROYED);
    assert_int_equal(cuStreamDestroy_v2(stream), DESTROYED);
    assert_int_equal(cuCtxPushCurrent_v2(foreign), INVALID_CONTEXT);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    gpu_close(0);
}

static int fail_later(void *argument)
{
    return *(int *)argument;
}

static void count_run(void *argument)
{
    ++*(int *)argument;
}

/* An error of the device sticks to its context, and what is queued is dropped. */
UNIT_TEST(test_a_failed_operation_fails_the_context)
{
    void *stream, *other, *event;
    int error = 719, runs = 0;
    uint64_t pointer;

    gpu_open(0);
    stream = gpu_stream();
    other = gpu_stream();
    event = gpu_event();
    gpusim_hold(stream);
    assert_int_equal(gpusim_enqueue(stream,
                             &(struct gpusim_op){
                                     .label = "failing",
                                     .body = fail_later,
                                     .argument = &error,
                             }),
            0);
    assert_int_equal(cuLaunchHostFunc(stream, count_run, &runs), 0);
    assert_int_equal(cuEventRecord(event, stream), 0);
    assert_int_equal(cuStreamWaitEvent(other, event, 0), 0);
    gpusim_release(stream);
    gpusim_settle();
    assert_int_equal(runs, 0);
    assert_int_equal(cuStreamQuery(other), 719);
    assert_int_equal(cuEventQuery(event), 719);
    assert_int_equal(cuStreamSynchronize(other), 719);
    assert_int_equal(cuMemAlloc_v2(&pointer, 8), 719);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuStreamDestroy_v2(other), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    gpu_close(0); /* the last use ends the context, the next one begins anew */
    gpu_open(0);
    pointer = gpu_alloc(8);
    assert_int_equal(cuMemFree_v2(pointer), 0);
    gpu_close(0);
}

UNIT_TEST(test_any_device_can_fail_by_itself)
{
    gpu_open(1);
    gpusim_fail_device(1, 700);
    assert_int_equal(cuCtxSynchronize(), 700);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    gpu_open(0);
    assert_int_equal(cuCtxSynchronize(), 0);
    gpu_close(0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
}

UNIT_TEST(test_nothing_is_left)
{
    struct gpusim_live live = gpusim_live();

    assert_int_equal(live.device_allocations, 0);
    assert_int_equal(live.host_allocations, 0);
    assert_int_equal(live.streams, 0);
    assert_int_equal(live.events, 0);
    assert_int_equal(live.modules, 0);
    assert_int_equal(live.retained, 0);
}
