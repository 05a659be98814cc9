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

/* The calling thread's contexts, by their handles; the last one is current. */
static _Thread_local struct {
    void *stack[STACK_MAX];
    int depth;
} thread;

static struct context *context_of(const void *handle)
{
    return handle_find(HANDLE_CONTEXT, handle);
}

struct context *context_current(void)
{
    return thread.depth > 0 ? context_of(thread.stack[thread.depth - 1]) : NULL;
}

int context_check(const struct context *context)
{
    if (context == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
    return context->alive ? context->error : CUDA_CONTEXT_IS_DESTROYED;
}

/* The handle is that of the one before, if any. */
static struct context *context_new(struct device *device, const struct context *before)
{
    static uint64_t count;
    struct context *context = calloc(1, sizeof *context);

    context->device = device;
    context->next = sim.contexts;
    sim.contexts = context;
    context->id = ++count;
    context->alive = true;
    context->legacy = stream_new(context, "default stream", 0);
    if (before == NULL) {
        context->handle = handle_new(HANDLE_CONTEXT, context);
    } else {
        context->handle = before->handle;
        handle_set(HANDLE_CONTEXT, context->handle, context);
    }
    return context;
}

/* Everything of the context goes: memory, streams, events, modules. */
static void context_end(struct context *context)
{
    context->alive = false;
    for (struct stream *s = context->streams; s != NULL; s = s->next) {
        stream_end(s);
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

void context_wait(struct context *context)
{
    for (struct stream *s = context->streams; s != NULL; s = s->next) {
        stream_wait(s, s->submitted);
    }
}

int sim_cuDevicePrimaryCtxRetain(void **context, int device)
{
    struct device *found = device_find(device);

    if (found == NULL) {
        return CUDA_INVALID_DEVICE;
    }
    if (found->primary == NULL || !found->primary->alive) {
        found->primary = context_new(found, found->primary);
    }
    *context = found->primary->handle;
    found->retained++;
    return CUDA_SUCCESS;
}

int sim_cuDevicePrimaryCtxRelease_v2(int device)
{
    struct device *found = device_find(device);

    if (found == NULL || found->retained == 0) {
        return CUDA_INVALID_CONTEXT;
    }
    found->retained--;
    if (found->retained == 0 && found->primary->alive) {
        context_end(found->primary);
    }
    return CUDA_SUCCESS;
}

void gpusim_reset(int device)
{
    pthread_mutex_lock(&sim.lock);
    if (sim.devices[device].primary != NULL && sim.devices[device].primary->alive) {
        context_end(sim.devices[device].primary);
    }
    pthread_mutex_unlock(&sim.lock);
}

int sim_cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    const struct device *found = device_find(device);

    *flags = 0;
    *active = found != NULL && found->primary != NULL && found->primary->alive;
    return found == NULL ? CUDA_INVALID_DEVICE : CUDA_SUCCESS;
}

int sim_cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    struct device *found = device_find(device);

    (void)flags;
    if (found == NULL) {
        return CUDA_INVALID_DEVICE;
    }
    *context = context_new(found, NULL)->handle;
    return sim_cuCtxPushCurrent_v2(*context);
}

int sim_cuCtxDestroy_v2(void *context)
{
    struct context *found = context_of(context);

    if (found == NULL || found == found->device->primary || !found->alive) {
        return CUDA_INVALID_CONTEXT;
    }
    if (found == context_current()) {
        thread.depth--;
    }
    context_end(found);
    return CUDA_SUCCESS;
}

int sim_cuCtxPushCurrent_v2(void *context)
{
    if (context_of(context) == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
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
    if (context != NULL && context_of(context) == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
    if (thread.depth > 0) {
        thread.depth--;
    }
    return context == NULL ? CUDA_SUCCESS : sim_cuCtxPushCurrent_v2(context);
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
    *device = context_current()->device->ordinal;
    return CUDA_SUCCESS;
}

int sim_cuCtxGetId(void *context, unsigned long long *id)
{
    const struct context *found =
            context == NULL ? context_current() : context_of(context);

    if (found == NULL || !found->alive) {
        return CUDA_INVALID_CONTEXT;
    }
    *id = found->id;
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
    struct context *context = context_current();

    for (struct stream *s = context->streams; s != NULL; s = s->next) {
        struct place end = { .stream = NULL };

        place_note(&end, s);
        (void)place_wait(&end);
        place_fini(&end);
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
    if (device_find(device) != NULL && sim.devices[device].primary != NULL) {
        context_fail(sim.devices[device].primary, result);
    }
    pthread_mutex_unlock(&sim.lock);
}
