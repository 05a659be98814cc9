/*
 * Events. An event is its last record: a place in a stream, and the clock of that place.
 * Waiting takes the record that is there at the call; without one there is nothing to wait
 * for, and the event is complete.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

enum {
    EVENT_FLAGS_MAX = 7
};

struct event {
    struct context *context;
    uint64_t generation; /* of the context */
    struct stream
            *stream; /* of the last record; NULL: there is none, or it was captured */
    uint64_t sequence; /* of the record in the stream */
    struct clock clock; /* of the stream then */
    struct capture *captured; /* the record was put on a captured stream */
    size_t place; /* and there */
};

static void record_drop(struct event *event)
{
    clock_fini(&event->clock);
    event->stream = NULL;
}

static int event_find(void *handle, struct event **event)
{
    *event = handle_find(HANDLE_EVENT, handle);
    if (*event == NULL) {
        gpusim_report("an event was used that was destroyed or never made");
        return CUDA_INVALID_HANDLE;
    }
    return (*event)->generation != (*event)->context->generation
            ? CUDA_CONTEXT_IS_DESTROYED
            : CUDA_SUCCESS;
}

int cuEventCreate(void **event, unsigned flags)
{
    int result = sim_enter("cuEventCreate", NEEDS_CONTEXT);

    if (result == CUDA_SUCCESS && (event == NULL || flags > EVENT_FLAGS_MAX)) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        struct event *made = calloc(1, sizeof *made);

        made->context = context_current();
        made->generation = made->context->generation;
        *event = handle_new(HANDLE_EVENT, made);
    }
    return sim_leave(result);
}

int cuEventDestroy_v2(void *event)
{
    int result = sim_enter("cuEventDestroy_v2", NEEDS_INIT);
    struct event *found;

    if (result == CUDA_SUCCESS) {
        result = event_find(event, &found);
        if (found != NULL) {
            record_drop(found);
            free(found);
            handle_drop(HANDLE_EVENT, event);
        }
    }
    return sim_leave(result);
}

static int event_record(struct event *event, struct stream *stream)
{
    int result;

    if (event->context != stream->context) {
        return CUDA_INVALID_HANDLE;
    }
    result = capture_refuses(stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    event->captured = stream->capture;
    if (event->captured != NULL) {
        event->place = capture_place(stream);
    } else {
        result = stream_submit(stream, op_new("cuEventRecord", OP_EMPTY));
    }
    if (result == CUDA_SUCCESS) {
        record_drop(event);
    }
    if (result == CUDA_SUCCESS && event->captured == NULL) {
        event->stream = stream;
        event->sequence = stream->submitted;
        event->clock = clock_copy(&stream->clock);
    }
    return result;
}

int cuEventRecord(void *event, void *stream)
{
    int result = sim_enter("cuEventRecord", NEEDS_CONTEXT);
    struct stream *found_stream;
    struct event *found;

    if (result == CUDA_SUCCESS) {
        result = event_find(event, &found);
    }
    if (result == CUDA_SUCCESS) {
        result = stream_find(stream, &found_stream);
    }
    return sim_leave(
            result == CUDA_SUCCESS ? event_record(found, found_stream) : result);
}

static int event_error(const struct event *event)
{
    if (event->captured != NULL) {
        capture_spoil(event->captured);
        return CUDA_CAPTURED_EVENT;
    }
    return event->context->error;
}

int cuEventQuery(void *event)
{
    int result = sim_enter("cuEventQuery", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);
    struct event *found;

    if (result == CUDA_SUCCESS) {
        result = event_find(event, &found);
    }
    if (result == CUDA_SUCCESS) {
        result = event_error(found);
    }
    if (result == CUDA_SUCCESS && found->stream != NULL &&
            found->stream->done < found->sequence) {
        result = CUDA_NOT_READY;
    }
    if (result == CUDA_SUCCESS) {
        clock_join(&sim.host, &found->clock);
    }
    return sim_leave(result);
}

/* The event may be recorded again, or destroyed, while this waits. */
static int event_synchronize(const struct event *event)
{
    struct stream *stream = event->stream;
    struct clock seen = clock_copy(&event->clock);

    stream_wait(stream, event->sequence);
    clock_join(&sim.host, &seen);
    clock_fini(&seen);
    return stream_is_dead(stream) ? CUDA_CONTEXT_IS_DESTROYED : stream->context->error;
}

int cuEventSynchronize(void *event)
{
    int result = sim_enter("cuEventSynchronize", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);
    struct event *found;

    if (result == CUDA_SUCCESS) {
        result = event_find(event, &found);
    }
    if (result == CUDA_SUCCESS) {
        result = event_error(found);
    }
    if (result == CUDA_SUCCESS && found->stream != NULL) {
        result = event_synchronize(found);
    }
    return sim_leave(result);
}

/* Times of a simulated GPU mean nothing, so there are none. */
int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)milliseconds;
    (void)start;
    (void)end;
    return CUDA_NOT_SUPPORTED;
}

static int event_wait(struct stream *stream, const struct event *event)
{
    struct op *op;

    if (event->captured != NULL) {
        return capture_follow(stream, event->captured, event->place);
    }
    if (stream->capture != NULL && event->stream != NULL) {
        capture_spoil(stream->capture);
        return CUDA_STREAM_CAPTURE_ISOLATION;
    }
    if (event->stream == NULL) {
        return CUDA_SUCCESS;
    }
    clock_join(&stream->clock, &event->clock);
    op = op_new("cuStreamWaitEvent", OP_EMPTY);
    op_depend(op, event->stream, event->sequence);
    return stream_submit(stream, op);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    int result = sim_enter("cuStreamWaitEvent", NEEDS_CONTEXT);
    struct stream *found_stream;
    struct event *found;

    (void)flags;
    if (result == CUDA_SUCCESS) {
        result = event_find(event, &found);
    }
    if (result == CUDA_SUCCESS) {
        result = stream_find(stream, &found_stream);
    }
    return sim_leave(result == CUDA_SUCCESS ? event_wait(found_stream, found) : result);
}
