/*
 * The driver's calls about streams.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

static int stream_create(
        const char *function, void **stream, unsigned flags, int priority)
{
    int result = sim_enter(function, NEEDS_CONTEXT);

    if (result == CUDA_SUCCESS && (stream == NULL || flags > STREAM_NON_BLOCKING)) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        struct stream *made = stream_new(context_current(), "stream");

        made->flags = flags;
        made->priority = priority > 0 ? 0 : priority;
        made->handle = handle_new(HANDLE_STREAM, made);
        *stream = made->handle;
    }
    return sim_leave(result);
}

int cuStreamCreate(void **stream, unsigned flags)
{
    return stream_create("cuStreamCreate", stream, flags, 0);
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    return stream_create("cuStreamCreateWithPriority", stream, flags, priority);
}

int cuStreamDestroy_v2(void *stream)
{
    int result = sim_enter("cuStreamDestroy_v2", NEEDS_INIT);
    struct stream *found = handle_find(HANDLE_STREAM, stream);

    if (result == CUDA_SUCCESS && found == NULL) {
        gpusim_report("a stream is destroyed that was destroyed before or never made");
        result = CUDA_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        result = stream_is_dead(found) ? CUDA_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
        if (found->capture != NULL) {
            capture_spoil(found->capture);
        }
        stream_end(found);
        handle_drop(HANDLE_STREAM, stream);
    }
    return sim_leave(result);
}

int stream_synchronize(struct stream *stream)
{
    int result = capture_refuses_waiting(stream);
    struct clock seen;

    if (result == CUDA_SUCCESS && stream == stream->context->legacy) {
        result = stream_submit(stream, op_new("synchronise", OP_EMPTY));
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    seen = clock_copy(&stream->clock);
    stream_wait(stream, stream->submitted);
    clock_join(&sim.host, &seen);
    clock_fini(&seen);
    return stream_is_dead(stream) ? CUDA_CONTEXT_IS_DESTROYED : stream->context->error;
}

int cuStreamSynchronize(void *stream)
{
    struct stream *found;
    int result = stream_enter("cuStreamSynchronize", stream, &found);

    return sim_leave(result == CUDA_SUCCESS ? stream_synchronize(found) : result);
}

int cuStreamGetCtx(void *stream, void **context)
{
    int result = sim_enter("cuStreamGetCtx", NEEDS_INIT);
    struct stream *found;

    if (result == CUDA_SUCCESS) {
        result = stream_find(stream, &found);
    }
    if (result == CUDA_SUCCESS) {
        *context = found->context->handle;
    }
    return sim_leave(result);
}

int cuStreamGetFlags(void *stream, unsigned *flags)
{
    struct stream *found;
    int result = stream_enter("cuStreamGetFlags", stream, &found);

    if (result == CUDA_SUCCESS) {
        *flags = found->flags;
    }
    return sim_leave(result);
}

int cuStreamGetPriority(void *stream, int *priority)
{
    struct stream *found;
    int result = stream_enter("cuStreamGetPriority", stream, &found);

    if (result == CUDA_SUCCESS) {
        *priority = found->priority;
    }
    return sim_leave(result);
}
