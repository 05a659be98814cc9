/*
 * The interface of the core (ops/device.h) over a rank's GPU.
 */
#include "ops/device.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/script.h"

static tutti_status device_look(
        void *state, const void *memory, size_t bytes, enum op_space *space)
{
    return gpu_memory_look(state, memory, bytes, space);
}

static uint64_t device_spot(void *state, const struct op_set *set, const void *input,
        size_t input_bytes, const void *output, size_t output_bytes)
{
    struct gpu *gpu = state;
    const size_t bytes = size_max(input_bytes, output_bytes);

    if (!gpu_registers(gpu, set) || bytes < SCRIPT_ALONE_BYTES) {
        return 0;
    }
    return output_bytes == SIZE_MAX
            ? 2 + (uint64_t)set->rank
            : gpu_memory_spot(gpu, input_bytes > 0 ? input : NULL,
                      output_bytes > 0 ? output : NULL);
}

static tutti_status device_record(
        void *state, tutti_stream stream, struct device_event **event, bool *captured)
{
    const tutti_status status = gpu_record_caller(state, stream, event);

    *captured = status == TUTTI_OK && gpu_event_capture(*event) != 0;
    return status;
}

static tutti_status device_follow(
        void *state, tutti_stream stream, struct device_event *event)
{
    return gpu_follow_caller(state, stream, event);
}

static tutti_status device_fence(void *state, tutti_stream stream)
{
    struct gpu *gpu = state;
    struct device_event *event = NULL;
    tutti_status status = gpu_record_caller(gpu, stream, &event);

    if (status != TUTTI_OK) {
        return status;
    }
    status = gpu_event_capture(event) == 0
            ? gpu_follow(gpu, gpu->streams[GPU_COMM], event)
            : error_set(TUTTI_ERR_INVALID,
                      "rank %d: stream %p is being captured in a CUDA graph", gpu->rank,
                      stream);
    gpu_event_release(gpu, event);
    return status;
}

static tutti_status device_passed(void *state, struct device_event *event)
{
    return gpu_passed(state, event);
}

static tutti_status device_alive(void *state)
{
    return gpu_alive(state);
}

static void device_hold(void *state, struct device_event *event)
{
    (void)state;
    gpu_event_hold(event);
}

static void device_release(void *state, struct device_event *event)
{
    gpu_event_release(state, event);
}

/* ----------------------------------------------------------------------- copies */

static cu_stream way_stream(const struct gpu *gpu, enum device_way way)
{
    return gpu->streams[way == DEVICE_TO_HOST ? GPU_COPY : GPU_RETURN];
}

static cu_result put_copy(
        const struct gpu *gpu, enum device_way way, const struct device_copy *copy)
{
    cu_stream stream = way_stream(gpu, way);

    switch (way) {
    case DEVICE_TO_HOST:
        return gpu->cuda->memcpy_dtoh_async(
                copy->to, (cu_pointer)(uintptr_t)copy->from, copy->bytes, stream);
    case HOST_TO_DEVICE:
        break;
    }
    return gpu->cuda->memcpy_htod_async(
            (cu_pointer)(uintptr_t)copy->to, copy->from, copy->bytes, stream);
}

/* What was begun cannot be taken back: an error behind the first copy loses the device. */
static tutti_status put_copies(struct gpu *gpu, enum device_way way,
        const struct device_copy *copies, size_t count, struct device_event *done)
{
    static const char doing[] = "copy between host and device memory";
    bool has_begun = false;
    tutti_status status = gpu_enter(gpu);

    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (copies[i].bytes > 0) {
            const cu_result result = put_copy(gpu, way, &copies[i]);

            status = result == CU_SUCCESS || !has_begun ? gpu_check(gpu, result, doing)
                                                        : gpu_lose(gpu, result, doing);
            has_begun = true;
        }
    }
    gpu_leave(gpu);
    if (status != TUTTI_OK) {
        return status;
    }
    status = gpu_event_record(gpu, done, way_stream(gpu, way));
    return status == TUTTI_OK ? status : gpu_lose(gpu, CU_ERROR_UNKNOWN, doing);
}

static tutti_status device_copy_all(void *state, enum device_way way,
        const struct device_copy *copies, size_t count,
        struct device_event *const *after, size_t after_count,
        struct device_event **done)
{
    struct gpu *gpu = state;
    struct device_event *event = NULL;
    tutti_status status = gpu_event_new(gpu, &event);

    for (size_t i = 0; i < after_count && status == TUTTI_OK; i++) {
        status = gpu_follow(gpu, way_stream(gpu, way), after[i]);
    }
    if (status == TUTTI_OK) {
        status = put_copies(gpu, way, copies, count, event);
    }
    if (status != TUTTI_OK) {
        gpu_event_release(gpu, event);
        return status;
    }
    *done = event;
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------- memory */

static void *device_alloc(void *state, size_t bytes)
{
    return gpu_memory_alloc(state, bytes);
}

static void device_give_back(void *state, void *memory)
{
    gpu_memory_give_back(state, memory);
}

static void *device_host_alloc(void *state, size_t bytes)
{
    return gpu_host_alloc(state, bytes);
}

static void device_host_give_back(void *state, void *memory)
{
    gpu_host_give_back(state, memory);
}

struct device gpu_device(struct gpu *gpu)
{
    return (struct device){ .state = gpu,
        .look = device_look,
        .spot = device_spot,
        .record = device_record,
        .follow = device_follow,
        .fence = device_fence,
        .passed = device_passed,
        .alive = device_alive,
        .hold = device_hold,
        .release = device_release,
        .copy = device_copy_all,
        .alloc = device_alloc,
        .give_back = device_give_back,
        .host_alloc = device_host_alloc,
        .host_give_back = device_host_give_back };
}
