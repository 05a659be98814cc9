/*
 * Graph capture, as far as a library that refuses it, or is disturbed by it, can see: what is
 * put on a captured stream is counted and not run, and calls that a capture forbids fail and
 * spoil it. No other stream is drawn into a capture: waiting for an event of it fails.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

enum capture_mode {
    MODE_GLOBAL = 0,
    MODE_THREAD = 1,
    MODE_RELAXED = 2
};

/* Captures are never freed: events remember them. */
struct capture {
    struct capture *next;
    struct stream *origin; /* NULL: it has ended */
    const void *thread; /* that began it      */
    enum capture_mode mode;
    size_t nodes;
    bool spoilt;
};

struct graph {
    size_t nodes;
};

static struct capture *captures;
static _Thread_local enum capture_mode thread_mode; /* what this thread asks for */

void capture_spoil(struct capture *capture)
{
    capture->spoilt = true;
}

/* The rule of cudaThreadExchangeStreamCaptureMode. */
static bool forbids(const struct capture *capture)
{
    bool own = capture->thread == &thread_mode;

    if (capture->origin == NULL || thread_mode == MODE_RELAXED) {
        return false;
    }
    return (own && capture->mode != MODE_RELAXED) ||
            (thread_mode == MODE_GLOBAL && capture->mode == MODE_GLOBAL);
}

bool capture_forbids(void)
{
    bool forbidden = false;

    for (struct capture *c = captures; c != NULL; c = c->next) {
        if (forbids(c)) {
            capture_spoil(c);
            forbidden = true;
        }
    }
    return forbidden;
}

bool capture_takes(struct stream *stream)
{
    if (stream->capture == NULL) {
        return false;
    }
    stream->capture->nodes++;
    return true;
}

/* A capture of a blocking stream, which the default stream would have to wait for. */
static struct capture *capture_of_blocking(const struct context *context)
{
    for (const struct stream *s = context->streams; s != NULL; s = s->next) {
        if (s->capture != NULL && (s->flags & STREAM_NON_BLOCKING) == 0) {
            return s->capture;
        }
    }
    return NULL;
}

int capture_refuses(struct stream *stream)
{
    struct capture *other = NULL;

    if (stream->capture != NULL) {
        return stream->capture->spoilt ? CUDA_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    }
    if (stream == stream->context->legacy) {
        other = capture_of_blocking(stream->context);
    }
    if (other != NULL) {
        capture_spoil(other);
        return CUDA_STREAM_CAPTURE_IMPLICIT;
    }
    return CUDA_SUCCESS;
}

int capture_refuses_waiting(struct stream *stream)
{
    if (stream->capture != NULL) {
        capture_spoil(stream->capture);
        return CUDA_STREAM_CAPTURE_UNSUPPORTED;
    }
    return capture_forbids() ? CUDA_STREAM_CAPTURE_UNSUPPORTED
                             : capture_refuses(stream);
}

static int capture_begin(struct stream *stream, int mode)
{
    struct capture *capture;

    if (stream == stream->context->legacy) {
        return CUDA_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != NULL) {
        return CUDA_ILLEGAL_STATE;
    }
    capture = calloc(1, sizeof *capture);
    *capture = (struct capture){
        .next = captures,
        .origin = stream,
        .thread = &thread_mode,
        .mode = (enum capture_mode)mode,
    };
    captures = capture;
    stream->capture = capture;
    return CUDA_SUCCESS;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    struct stream *found;
    int result = stream_enter("cuStreamBeginCapture_v2", stream, &found);

    return sim_leave(result == CUDA_SUCCESS ? capture_begin(found, mode) : result);
}

static int capture_end(struct stream *stream, void **graph)
{
    struct capture *capture = stream->capture;
    struct graph *made;

    *graph = NULL;
    if (capture == NULL) {
        return CUDA_ILLEGAL_STATE;
    }
    stream->capture = NULL;
    capture->origin = NULL;
    if (capture->spoilt) {
        return CUDA_STREAM_CAPTURE_INVALIDATED;
    }
    made = malloc(sizeof *made);
    made->nodes = capture->nodes;
    *graph = handle_new(HANDLE_GRAPH, made);
    return CUDA_SUCCESS;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    struct stream *found;
    int result = stream_enter("cuStreamEndCapture", stream, &found);

    return sim_leave(result == CUDA_SUCCESS ? capture_end(found, graph) : result);
}

static int capture_status(const struct stream *stream)
{
    if (stream->capture == NULL) {
        return 0;
    }
    return stream->capture->spoilt ? 2 : 1;
}

/* Asking about the default stream fails while a blocking stream is captured. */
int cuStreamIsCapturing(void *stream, int *status)
{
    struct stream *found;
    int result = stream_enter("cuStreamIsCapturing", stream, &found);

    if (result == CUDA_SUCCESS && found == found->context->legacy &&
            capture_of_blocking(found->context) != NULL) {
        result = CUDA_STREAM_CAPTURE_IMPLICIT;
    }
    if (result == CUDA_SUCCESS) {
        *status = capture_status(found);
    }
    return sim_leave(result);
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int result = sim_enter("cuThreadExchangeStreamCaptureMode", NEEDS_INIT);

    if (result == CUDA_SUCCESS) {
        enum capture_mode previous = thread_mode;

        thread_mode = (enum capture_mode) * mode;
        *mode = (int)previous;
    }
    return sim_leave(result);
}

int cuGraphDestroy(void *graph)
{
    int result = sim_enter("cuGraphDestroy", NEEDS_INIT);
    struct graph *found = handle_find(HANDLE_GRAPH, graph);

    if (result == CUDA_SUCCESS && found == NULL) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        handle_drop(HANDLE_GRAPH, graph);
        free(found);
    }
    return sim_leave(result);
}

int cuGraphGetNodes(void *graph, void **nodes, size_t *count)
{
    int result = sim_enter("cuGraphGetNodes", NEEDS_INIT);
    const struct graph *found = handle_find(HANDLE_GRAPH, graph);

    if (result == CUDA_SUCCESS && (found == NULL || nodes != NULL)) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *count = found->nodes;
    }
    return sim_leave(result);
}
