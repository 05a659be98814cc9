/*
 * The devices: GPUSIM_DEVICES of them, as a node of one vendor's server shows them. And contexts:
 * the primary one of each device, counted by its uses, and others that tests make to be foreign. A
 * context that ended leaves its handle behind: calls with it are refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ops/gpu/driver.h"
#include "test/gpusim/state.h"

enum {
    PCI_FIRST_BUS = 0x17,
    PCI_BUS_STEP = 0x10,
    UUID_BYTES = 16,
    STACK_MAX = 32,
    PRIORITY_GREATEST = -5
};

/* ---- devices ---- */

int devices_init(void)
{
    const int count = (int)gpusim_option("GPUSIM_DEVICES", 4);

    sim.device_count = count > DEVICES_MAX ? DEVICES_MAX : count;
    for (int i = 0; i < sim.device_count; i++) {
        struct device *device = &sim.devices[i];

        device->primary.object.kind = CONTEXT;
        device->limit_bytes = device_bytes;
        (void)snprintf(device->pci, sizeof device->pci, "0000:%02x:00.0",
                PCI_FIRST_BUS + PCI_BUS_STEP * i);
    }
    return sim.device_count > 0 ? CUDA_SUCCESS : CUDA_NO_DEVICE;
}

int device_find(int device)
{
    return device >= 0 && device < sim.device_count ? CUDA_SUCCESS
                                                    : CUDA_INVALID_DEVICE;
}

int sim_cuDeviceGetCount(int *count)
{
    *count = sim.device_count;
    return CUDA_SUCCESS;
}

int sim_cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetName(char *name, int length, int device)
{
    (void)snprintf(name, (size_t)length, "Simulated GPU (gpusim %d)", device);
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetPCIBusId(char *text, int length, int device)
{
    (void)snprintf(text, (size_t)length, "%s", sim.devices[device].pci);
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetUuid_v2(void *uuid, int device)
{
    for (int i = 0; i < UUID_BYTES; i++) {
        ((unsigned char *)uuid)[i] = (unsigned char)(0x10 * (device + 1) + i);
    }
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetUuid(void *uuid, int device)
{
    return sim_cuDeviceGetUuid_v2(uuid, device);
}

int sim_cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == CU_DEVICE_SM_COUNT          ? 8
            : attribute == CU_DEVICE_L2_BYTES         ? 32 << 20
            : attribute == CU_DEVICE_CAPABILITY_MAJOR ? 9
                                                      : 0;
    return CUDA_SUCCESS;
}

int sim_cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = device_bytes;
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

/* The calling thread's contexts; the last one is current. */
static _Thread_local struct {
    struct context_handle *stack[STACK_MAX];
    int depth;
} thread;

struct context *context_current(void)
{
    return thread.depth > 0 ? thread.stack[thread.depth - 1]->context : NULL;
}

int context_check(const struct context *context)
{
    if (context == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
    return context->alive ? context->error : CUDA_CONTEXT_IS_DESTROYED;
}

/* Another life. */
static void context_begin(struct context_handle *handle, int device)
{
    static uint64_t count;
    struct context *context = calloc(1, sizeof *context);

    *context = (struct context){
        .handle = handle, .device = device, .id = ++count, .alive = true
    };
    context->legacy = stream_new(context, "default stream", 0);
    handle->context = context;
}

/* Everything of the context goes: memory, streams, events, modules. */
static void context_end(struct context *context)
{
    context->alive = false;
    for (struct stream *s = sim.streams; s != NULL; s = s->next) {
        s->destroyed = s->destroyed || s->context == context;
    }
    memory_end(context);
    streams_wake();
}

void context_fail(struct context *context, int error)
{
    if (context->alive && context->error == CUDA_SUCCESS) {
        context->error = error;
        streams_wake();
    }
}

void context_wait(const struct context *context)
{
    for (struct stream *s = sim.streams; s != NULL; s = s->next) {
        if (s->context == context) {
            stream_wait(s, s->submitted);
        }
    }
}

static bool is_active(int device)
{
    const struct context *context = sim.devices[device].primary.context;

    return context != NULL && context->alive;
}

int sim_cuDevicePrimaryCtxRetain(void **context, int device)
{
    struct device *found = &sim.devices[device];

    if (!is_active(device)) {
        context_begin(&found->primary, device);
    }
    *context = &found->primary;
    found->retained++;
    return CUDA_SUCCESS;
}

int sim_cuDevicePrimaryCtxRelease_v2(int device)
{
    struct device *found = &sim.devices[device];

    if (found->retained == 0) {
        return CUDA_INVALID_CONTEXT;
    }
    found->retained--;
    if (found->retained == 0 && is_active(device)) {
        context_end(found->primary.context);
    }
    return CUDA_SUCCESS;
}

void gpusim_reset(int device)
{
    pthread_mutex_lock(&sim.lock);
    if (is_active(device)) {
        context_end(sim.devices[device].primary.context);
    }
    pthread_mutex_unlock(&sim.lock);
}

int sim_cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = is_active(device);
    return CUDA_SUCCESS;
}

int sim_cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    (void)flags;
    *context = object_new(CONTEXT, sizeof(struct context_handle));
    context_begin(*context, device);
    return sim_cuCtxPushCurrent_v2(*context);
}

int sim_cuCtxDestroy_v2(void *context)
{
    struct context *found = ((struct context_handle *)context)->context;

    if (context == &sim.devices[found->device].primary) {
        return CUDA_INVALID_CONTEXT;
    }
    if (found == context_current()) {
        thread.depth--;
    }
    context_end(found);
    object_drop(context);
    return CUDA_SUCCESS;
}

int sim_cuCtxPushCurrent_v2(void *context)
{
    if (thread.depth == STACK_MAX) {
        return CUDA_OUT_OF_MEMORY;
    }
    thread.stack[thread.depth++] = context;
    return CUDA_SUCCESS;
}

int sim_cuCtxPopCurrent_v2(void **context)
{
    if (thread.depth == 0) {
        return CUDA_INVALID_CONTEXT;
    }
    *context = thread.stack[--thread.depth];
    return CUDA_SUCCESS;
}

int sim_cuCtxSetCurrent(void *context)
{
    const int result = context == NULL ? CUDA_SUCCESS : object_find(CONTEXT, context);

    if (result == CUDA_SUCCESS && thread.depth > 0) {
        thread.depth--;
    }
    return result == CUDA_SUCCESS && context != NULL ? sim_cuCtxPushCurrent_v2(context)
                                                     : result;
}

int sim_cuCtxGetCurrent(void **context)
{
    *context = thread.depth == 0 ? NULL : thread.stack[thread.depth - 1];
    return CUDA_SUCCESS;
}

int sim_cuCtxGetDevice(int *device)
{
    if (context_current() == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
    *device = context_current()->device;
    return CUDA_SUCCESS;
}

int sim_cuCtxGetId(void *context, unsigned long long *id)
{
    const struct context_handle *handle = context;

    if (!handle->context->alive) {
        return CUDA_INVALID_CONTEXT;
    }
    *id = handle->context->id;
    return CUDA_SUCCESS;
}

int sim_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

int sim_cuCtxSynchronize(void)
{
    const struct context *context = context_current();

    for (struct stream *s = sim.streams; s != NULL; s = s->next) {
        if (s->context == context) {
            stream_join(s);
        }
    }
    return context_check(context);
}

void gpusim_fail_device(int device, int result)
{
    pthread_mutex_lock(&sim.lock);
    if (is_active(device)) {
        context_fail(sim.devices[device].primary.context, result);
    }
    pthread_mutex_unlock(&sim.lock);
}
