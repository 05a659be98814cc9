/*
 * Contexts: the primary one of each device, counted by its uses, and others that tests make
 * to be foreign. A context that ended leaves its handle behind: calls with it are refused.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

enum {
    STACK_MAX = 32,
    PRIORITY_GREATEST = -5
};

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

int gpusim_current_device(void)
{
    int device = -1;

    pthread_mutex_lock(&sim.lock);
    (void)sim_cuCtxGetDevice(&device);
    pthread_mutex_unlock(&sim.lock);
    return device;
}

void gpusim_fail_device(int device, int result)
{
    pthread_mutex_lock(&sim.lock);
    if (is_active(device)) {
        context_fail(sim.devices[device].primary.context, result);
    }
    pthread_mutex_unlock(&sim.lock);
}
