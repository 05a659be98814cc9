/*
 * The driver's calls about streams.
 */
#include "test/gpusim/state.h"

int sim_cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    struct stream *made;

    if (flags > STREAM_NON_BLOCKING) {
        return CUDA_INVALID_VALUE;
    }
    made = stream_new(context_current(), "stream", flags);
    made->priority = priority > 0 ? 0 : priority;
    made->handle = handle_new(HANDLE_STREAM, made);
    *stream = made->handle;
    return CUDA_SUCCESS;
}

int sim_cuStreamCreate(void **stream, unsigned flags)
{
    return sim_cuStreamCreateWithPriority(stream, flags, 0);
}

int sim_cuStreamDestroy_v2(void *stream)
{
    struct stream *found = handle_find(HANDLE_STREAM, stream);

    if (found == NULL) {
        gpusim_report("a stream is destroyed that was destroyed before or never made");
        return CUDA_INVALID_HANDLE;
    }
    if (found->capture != NULL) {
        capture_spoil(found->capture);
    }
    stream_end(found);
    handle_drop(HANDLE_STREAM, stream);
    return found->context->alive ? CUDA_SUCCESS : CUDA_CONTEXT_IS_DESTROYED;
}

int stream_synchronize(struct stream *stream)
{
    struct place end = { .stream = NULL };
    int result = capture_refuses_waiting(stream);

    if (result == CUDA_SUCCESS && stream == stream->context->legacy) {
        result = stream_submit(stream, op_new("synchronise", NULL, NULL));
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    place_note(&end, stream);
    result = place_wait(&end);
    place_fini(&end);
    return result;
}

int sim_cuStreamSynchronize(void *stream)
{
    struct stream *found;
    int result = stream_find(stream, &found);

    return result == CUDA_SUCCESS ? stream_synchronize(found) : result;
}

int sim_cuStreamGetCtx(void *stream, void **context)
{
    struct stream *found;
    int result = stream_find(stream, &found);

    if (result == CUDA_SUCCESS) {
        *context = found->context->handle;
    }
    return result;
}

int sim_cuStreamGetFlags(void *stream, unsigned *flags)
{
    struct stream *found;
    int result = stream_find(stream, &found);

    if (result == CUDA_SUCCESS) {
        *flags = found->flags;
    }
    return result;
}

int sim_cuStreamGetPriority(void *stream, int *priority)
{
    struct stream *found;
    int result = stream_find(stream, &found);

    if (result == CUDA_SUCCESS) {
        *priority = found->priority;
    }
    return result;
}
