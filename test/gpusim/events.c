/*
 * Events. An event is its last record: a place in a stream, or in a capture. Waiting takes the
 * record that is there at the call; without one there is nothing to wait for, and the event is
 * complete.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

enum {
    EVENT_FLAGS_MAX = 7
};

struct event {
    struct context *context;
    struct place record;
    struct capture *captured; /* the record was put on a captured stream */
    size_t node; /* and there */
};

static int event_find(void *handle, struct event **event)
{
    *event = handle_find(HANDLE_EVENT, handle);
    if (*event == NULL) {
        gpusim_report("an event was used that was destroyed or never made");
        return CUDA_INVALID_HANDLE;
    }
    return (*event)->context->alive ? CUDA_SUCCESS : CUDA_CONTEXT_IS_DESTROYED;
}

/* An event, and the stream that is to record it or wait for it. */
static int find_both(
        void *handle, struct event **event, void *stream_handle, struct stream **stream)
{
    const int result = event_find(handle, event);

    return result == CUDA_SUCCESS ? stream_find(stream_handle, stream) : result;
}

int sim_cuEventCreate(void **event, unsigned flags)
{
    struct event *made;

    if (flags > EVENT_FLAGS_MAX) {
        return CUDA_INVALID_VALUE;
    }
    made = calloc(1, sizeof *made);
    made->context = context_current();
    *event = handle_new(HANDLE_EVENT, made);
    return CUDA_SUCCESS;
}

int sim_cuEventDestroy_v2(void *event)
{
    struct event *found;
    int result = event_find(event, &found);

    if (found != NULL) {
        place_fini(&found->record);
        handle_drop(HANDLE_EVENT, event);
    }
    return result;
}

int sim_cuEventRecord(void *event, void *stream)
{
    struct stream *on;
    struct event *found;
    int result = find_both(event, &found, stream, &on);

    if (result == CUDA_SUCCESS && found->context != on->context) {
        result = CUDA_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        result = capture_refuses(on);
    }
    if (result == CUDA_SUCCESS && on->capture == NULL) {
        result = stream_submit(on, op_new("cuEventRecord", NULL, NULL));
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    found->captured = on->capture;
    if (on->capture != NULL) {
        place_fini(&found->record);
        found->node = capture_node(on);
    } else {
        place_note(&found->record, on);
    }
    return CUDA_SUCCESS;
}

/* Why nobody can ask for it; 0: one can. */
static int find_to_ask(void *event, struct event **found)
{
    int result = event_find(event, found);

    if (result == CUDA_SUCCESS && (*found)->captured != NULL) {
        capture_spoil((*found)->captured);
        return CUDA_CAPTURED_EVENT;
    }
    return result == CUDA_SUCCESS ? (*found)->context->error : result;
}

int sim_cuEventQuery(void *event)
{
    struct event *found;
    int result = find_to_ask(event, &found);

    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (found->record.stream != NULL &&
            found->record.stream->done < found->record.sequence) {
        return CUDA_NOT_READY;
    }
    clock_join(&sim.host, &found->record.clock);
    return CUDA_SUCCESS;
}

int sim_cuEventSynchronize(void *event)
{
    struct event *found;
    int result = find_to_ask(event, &found);

    return result == CUDA_SUCCESS && found->record.stream != NULL
            ? place_wait(&found->record)
            : result;
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
    struct stream *waiting;
    struct event *found;
    int result = find_both(event, &found, stream, &waiting);

    (void)flags;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (found->captured != NULL) {
        return capture_follow(waiting, found->captured, found->node);
    }
    if (waiting->capture != NULL && found->record.stream != NULL) {
        capture_spoil(waiting->capture);
        return CUDA_STREAM_CAPTURE_ISOLATION;
    }
    return place_follow(waiting, &found->record);
}
