/*
 * Contexts: the primary one of each device, counted by its uses, and others that tests make
 * to be foreign. A context that ended leaves its handle behind: calls with it are refused.
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

enum {
    STACK_MAX = 32,
    PRIORITY_GREATEST = -5
};

/* The calling thread's contexts; the last one is current. */
static _Thread_local struct {
    struct context *stack[STACK_MAX];
    int depth;
} thread;

struct context *context_current(void)
{
    return thread.depth > 0 ? thread.stack[thread.depth - 1] : NULL;
}

static void context_begin(struct context *context)
{
    context->alive = true;
    context->error = CUDA_SUCCESS;
    context->id = ++sim.next_id;
    context->legacy = stream_new(context, "default stream");
}

struct context *context_new(struct device *device)
{
    struct context *context = calloc(1, sizeof *context);

    context->device = device;
    context->next = sim.contexts;
    sim.contexts = context;
    context->handle = handle_new(HANDLE_CONTEXT, context);
    context_begin(context);
    return context;
}

void context_end(struct context *context)
{
    struct stream *stream;

    context->alive = false;
    context->generation++;
    context->legacy = NULL;
    for (stream = context->streams; stream != NULL; stream = stream->next) {
        stream_end(stream);
    }
    memory_end(context);
    modules_end(context);
    streams_wake();
}

void context_fail(struct context *context, int error)
{
    if (context->alive && context->error == CUDA_SUCCESS) {
        context->error = error;
        streams_wake();
    }
}

void context_wait(struct context *context)
{
    struct stream *stream;

    for (stream = context->streams; stream != NULL; stream = stream->next) {
        stream_wait(stream, stream->submitted);
    }
}

static struct context *primary(struct device *device)
{
    if (device->primary == NULL) {
        device->primary = context_new(device);
    } else if (!device->primary->alive) {
        context_begin(device->primary);
    }
    return device->primary;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    struct device *found;
    int result = device_enter("cuDevicePrimaryCtxRetain", device, &found);

    if (result == CUDA_SUCCESS) {
        *context = primary(found)->handle;
        found->retained++;
    }
    return sim_leave(result);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    struct device *found;
    int result = device_enter("cuDevicePrimaryCtxRelease_v2", device, &found);

    if (result == CUDA_SUCCESS && found->retained == 0) {
        result = CUDA_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS) {
        found->retained--;
        if (found->retained == 0 && found->primary->alive) {
            context_end(found->primary);
        }
    }
    return sim_leave(result);
}

void gpusim_reset(int device)
{
    const struct context *context;

    pthread_mutex_lock(&sim.lock);
    context = sim.devices[device].primary;
    if (context != NULL && context->alive) {
        context_end(sim.devices[device].primary);
    }
    pthread_mutex_unlock(&sim.lock);
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    struct device *found;
    int result = device_enter("cuDevicePrimaryCtxGetState", device, &found);

    if (result == CUDA_SUCCESS) {
        const struct context *context = found->primary;

        *flags = 0;
        *active = context != NULL && context->alive ? 1 : 0;
    }
    return sim_leave(result);
}

static int push(struct context *context)
{
    if (thread.depth == STACK_MAX) {
        return CUDA_OUT_OF_MEMORY;
    }
    thread.stack[thread.depth++] = context;
    return CUDA_SUCCESS;
}

int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    struct device *found;
    int result = device_enter("cuCtxCreate_v2", device, &found);

    (void)flags;
    if (result == CUDA_SUCCESS) {
        struct context *made = context_new(found);

        *context = made->handle;
        result = push(made);
    }
    return sim_leave(result);
}

int cuCtxDestroy_v2(void *context)
{
    int result = sim_enter("cuCtxDestroy_v2", NEEDS_INIT);
    struct context *found = handle_find(HANDLE_CONTEXT, context);

    if (result == CUDA_SUCCESS && (found == NULL || found == found->device->primary)) {
        result = CUDA_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS) {
        if (found == context_current()) {
            thread.depth--;
        }
        context_end(found);
        handle_drop(HANDLE_CONTEXT, context);
    }
    return sim_leave(result);
}

int cuCtxPushCurrent_v2(void *context)
{
    int result = sim_enter("cuCtxPushCurrent_v2", NEEDS_INIT);
    struct context *found = handle_find(HANDLE_CONTEXT, context);

    if (result == CUDA_SUCCESS) {
        result = found == NULL ? CUDA_INVALID_CONTEXT : push(found);
    }
    return sim_leave(result);
}

int cuCtxPopCurrent_v2(void **context)
{
    int result = sim_enter("cuCtxPopCurrent_v2", NEEDS_INIT);

    if (result == CUDA_SUCCESS && thread.depth == 0) {
        result = CUDA_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS) {
        thread.depth--;
        if (context != NULL) {
            *context = thread.stack[thread.depth]->handle;
        }
    }
    return sim_leave(result);
}

int cuCtxSetCurrent(void *context)
{
    int result = sim_enter("cuCtxSetCurrent", NEEDS_INIT);
    struct context *found = handle_find(HANDLE_CONTEXT, context);

    if (result == CUDA_SUCCESS && context != NULL && found == NULL) {
        result = CUDA_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS) {
        if (thread.depth > 0) {
            thread.depth--;
        }
        result = found == NULL ? CUDA_SUCCESS : push(found);
    }
    return sim_leave(result);
}

int cuCtxGetCurrent(void **context)
{
    int result = sim_enter("cuCtxGetCurrent", NEEDS_INIT);

    if (result == CUDA_SUCCESS) {
        *context = context_current() == NULL ? NULL : context_current()->handle;
    }
    return sim_leave(result);
}

int cuCtxGetDevice(int *device)
{
    int result = sim_enter("cuCtxGetDevice", NEEDS_INIT);

    if (result == CUDA_SUCCESS && context_current() == NULL) {
        result = CUDA_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS) {
        *device = context_current()->device->ordinal;
    }
    return sim_leave(result);
}

/* The live context of a handle, NULL being the current one. */
static int context_of(void *handle, struct context **context)
{
    *context = handle == NULL ? context_current() : handle_find(HANDLE_CONTEXT, handle);
    return *context == NULL || !(*context)->alive ? CUDA_INVALID_CONTEXT : CUDA_SUCCESS;
}

int cuCtxGetId(void *context, unsigned long long *id)
{
    int result = sim_enter("cuCtxGetId", NEEDS_INIT);
    struct context *found;

    if (result == CUDA_SUCCESS) {
        result = context_of(context, &found);
    }
    if (result == CUDA_SUCCESS) {
        *id = found->id;
    }
    return sim_leave(result);
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    int result = sim_enter("cuCtxGetStreamPriorityRange", NEEDS_CONTEXT);

    if (result == CUDA_SUCCESS) {
        *least = 0;
        *greatest = PRIORITY_GREATEST;
    }
    return sim_leave(result);
}

int cuCtxSynchronize(void)
{
    int result = sim_enter("cuCtxSynchronize", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);

    if (result == CUDA_SUCCESS) {
        struct context *context = context_current();
        struct clock seen = { .times = NULL };

        for (struct stream *s = context->streams; s != NULL; s = s->next) {
            clock_join(&seen, &s->clock);
        }
        context_wait(context);
        clock_join(&sim.host, &seen);
        clock_fini(&seen);
        result = context->alive ? context->error : CUDA_CONTEXT_IS_DESTROYED;
    }
    return sim_leave(result);
}

int gpusim_current_device(void)
{
    int device;

    pthread_mutex_lock(&sim.lock);
    device = context_current() == NULL ? -1 : context_current()->device->ordinal;
    pthread_mutex_unlock(&sim.lock);
    return device;
}

void gpusim_fail_device(int device, int result)
{
    pthread_mutex_lock(&sim.lock);
    if (device >= 0 && device < sim.device_count &&
            sim.devices[device].primary != NULL) {
        context_fail(sim.devices[device].primary, result);
    }
    pthread_mutex_unlock(&sim.lock);
}
