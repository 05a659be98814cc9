/*
 * The driver's calls about streams, and events. An event is its last record: a place in a stream,
 * or in a capture. Waiting takes the record that is there at the call; without one there is nothing
 * to wait for, and the event is complete.
 */
#include "test/gpusim/state.h"

/* ---- streams ---- */

int sim_cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    struct stream *made = stream_new(context_current(), "stream", flags);

    object_add(STREAM, &made->object);
    made->priority = priority > 0 ? 0 : priority;
    *stream = made;
    return CUDA_SUCCESS;
}

int sim_cuStreamCreate(void **stream, unsigned flags)
{
    return sim_cuStreamCreateWithPriority(stream, flags, 0);
}

int sim_cuStreamDestroy_v2(void *stream)
{
    struct stream *found = stream;

    if (found->capture != NULL) {
        capture_spoil(found->capture);
    }
    found->destroyed = true;
    pthread_cond_broadcast(&found->changed);
    object_drop(found);
    return found->context->alive ? CUDA_SUCCESS : CUDA_CONTEXT_IS_DESTROYED;
}

void stream_join(struct stream *stream)
{
    struct place end = { .stream = NULL };

    place_note(&end, stream);
    place_wait(&end);
    place_fini(&end);
}

int sim_cuStreamSynchronize(void *stream)
{
    struct stream *joined = stream;
    int result = capture_refuses_waiting(joined);

    if (result == CUDA_SUCCESS && joined == joined->context->legacy) {
        result = stream_submit(joined, op_mark("synchronise"));
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    stream_join(joined);
    return context_check(joined->context);
}

int sim_cuStreamGetCtx(void *stream, void **context)
{
    *context = ((struct stream *)stream)->context->handle;
    return CUDA_SUCCESS;
}

int sim_cuStreamGetFlags(void *stream, unsigned *flags)
{
    *flags = ((struct stream *)stream)->flags;
    return CUDA_SUCCESS;
}

int sim_cuStreamGetPriority(void *stream, int *priority)
{
    *priority = ((struct stream *)stream)->priority;
    return CUDA_SUCCESS;
}

/* ---- events ---- */

struct event {
    struct object object;
    struct context *context;
    struct place record;
    struct capture *captured; /* the record was put on a captured stream */
    size_t node; /* and there */
};

int event_find(const void *event)
{
    const struct event *found = event;
    const int result = object_find(EVENT, event);

    return result == CUDA_SUCCESS ? context_check(found->context) : result;
}

int sim_cuEventCreate(void **event, unsigned flags)
{
    struct event *made = object_new(EVENT, sizeof *made);

    (void)flags;
    made->context = context_current();
    *event = made;
    return CUDA_SUCCESS;
}

int sim_cuEventDestroy_v2(void *event)
{
    struct event *destroyed = event;

    place_fini(&destroyed->record);
    object_drop(destroyed);
    return destroyed->context->alive ? CUDA_SUCCESS : CUDA_CONTEXT_IS_DESTROYED;
}

int sim_cuEventRecord(void *event, void *stream)
{
    struct stream *on = stream;
    struct event *recorded = event;
    int result = recorded->context != on->context ? CUDA_INVALID_HANDLE
                                                  : capture_refuses(on);

    if (result == CUDA_SUCCESS && on->capture == NULL) {
        result = stream_submit(on, op_mark("cuEventRecord"));
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    recorded->captured = on->capture;
    if (on->capture != NULL) {
        place_fini(&recorded->record);
        recorded->node = on->node;
    } else {
        place_note(&recorded->record, on);
    }
    return CUDA_SUCCESS;
}

/* Nobody may ask for what is in a graph. */
static int refuse_captured(const struct event *event)
{
    if (event->captured == NULL) {
        return CUDA_SUCCESS;
    }
    capture_spoil(event->captured);
    return CUDA_CAPTURED_EVENT;
}

int sim_cuEventQuery(void *event)
{
    const struct event *asked = event;
    const struct stream *stream = asked->record.stream;
    const int result = refuse_captured(asked);

    if (result == CUDA_SUCCESS && stream != NULL &&
            stream->done < asked->record.sequence) {
        return CUDA_NOT_READY;
    }
    clock_join(&sim.host, &asked->record.clock);
    return result;
}

int sim_cuEventSynchronize(void *event)
{
    const struct event *awaited = event;
    const int result = refuse_captured(awaited);

    if (result != CUDA_SUCCESS || awaited->record.stream == NULL) {
        return result;
    }
    place_wait(&awaited->record);
    return context_check(awaited->context);
}

/* Times of a simulated GPU mean nothing, so there are none. */
int sim_cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)milliseconds;
    (void)start;
    (void)end;
    return CUDA_NOT_SUPPORTED;
}

int sim_cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    struct stream *waiting = stream;
    const struct event *awaited = event;

    (void)flags;
    if (awaited->captured != NULL) {
        return capture_follow(waiting, awaited->captured, awaited->node);
    }
    if (waiting->capture != NULL && awaited->record.stream != NULL) {
        capture_spoil(waiting->capture);
        return CUDA_STREAM_CAPTURE_ISOLATION;
    }
    return place_follow(waiting, &awaited->record);
}
