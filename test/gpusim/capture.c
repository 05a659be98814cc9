/*
 * Capture and graphs. What is put on a captured stream becomes a node and is not run; a stream
 * that waits for a captured event is drawn in. Calls that a capture forbids fail and spoil it.
 *
 * A launch puts all nodes on streams again, in the order of their capture: those of the stream
 * that began it on the one that is launched on, those of each other one on a stream of the
 * graph's own, with the waits in between. So nothing is ordered that the capture did not order.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

enum {
    MODE_RELAXED = 2 /* what else there is counts as global, the strictest */
};

/* Numbered from 1; number 0 is the beginning. */
struct node {
    struct stream *lane; /* of the graph, that it runs on; NULL: that of the launch */
    struct op *op; /* owned; NULL: only waits */
    size_t before; /* in its lane */
    size_t after; /* what it waits for in another one */
    bool reached; /* the end comes after it */
    struct place place; /* in the newest launch */
};

/* What belongs to a graph. */
struct user_object {
    struct object object;
    struct user_object *next;
    void (*destroy)(void *user);
    void *user;
};

/* And the graph that comes out of it. Never freed: events remember it. */
struct capture {
    struct object object; /* the graph */
    struct stream *origin; /* NULL: it has ended */
    int mode;
    uint64_t id;
    struct node *nodes; /* owned; node n is nodes[n] */
    size_t count, capacity; /* nodes, number 0 included */
    struct user_object *objects; /* owned */
    atomic_int owners; /* the graph, executables, and launches in work */
    bool spoilt;
};

/* An executable. */
struct exec {
    struct object object;
    struct capture *graph;
    struct place end; /* of the newest launch */
};

static uint64_t capture_count;
static _Thread_local int thread_mode; /* what this thread asks for */

/* ---- rules ---- */

void capture_spoil(struct capture *capture)
{
    capture->spoilt = true;
}

bool capture_forbids(void)
{
    bool forbidden = false;

    for (struct stream *s = sim.streams; s != NULL; s = s->next) {
        if (s->capture != NULL && s->capture->mode != MODE_RELAXED &&
                thread_mode != MODE_RELAXED) {
            capture_spoil(s->capture);
            forbidden = true;
        }
    }
    return forbidden;
}

/* A capture of a blocking stream, which the default stream would have to wait for. */
static struct capture *capture_of_blocking(const struct context *context)
{
    for (const struct stream *s = sim.streams; s != NULL; s = s->next) {
        if (s->context == context && s->capture != NULL &&
                (s->flags & STREAM_NON_BLOCKING) == 0) {
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

/* ---- nodes ---- */

static void stream_capture(
        struct stream *stream, struct capture *capture, struct stream *lane)
{
    stream->capture = capture;
    stream->lane = lane;
    stream->node = 0;
}

static void node_add(struct stream *stream, struct op *op, size_t after)
{
    struct capture *capture = stream->capture;

    if (capture->count == capture->capacity) {
        capture->capacity = 2 * capture->capacity + 8;
        capture->nodes =
                realloc(capture->nodes, capture->capacity * sizeof *capture->nodes);
    }
    capture->nodes[capture->count] = (struct node){
        .lane = stream->lane, .op = op, .before = stream->node, .after = after
    };
    stream->node = capture->count++;
}

int capture_add(struct stream *stream, struct op *op)
{
    if (stream->capture->spoilt) {
        op_free(op);
        return CUDA_STREAM_CAPTURE_INVALIDATED;
    }
    node_add(stream, op, 0);
    return CUDA_SUCCESS;
}

int capture_follow(struct stream *stream, struct capture *capture, size_t node)
{
    if (capture->origin == NULL ||
            (stream->capture != NULL && stream->capture != capture)) {
        capture_spoil(stream->capture != NULL ? stream->capture : capture);
        return CUDA_STREAM_CAPTURE_ISOLATION;
    }
    if (stream->capture == NULL) {
        stream_capture(stream, capture,
                stream_new(stream->context, "graph's stream", STREAM_NON_BLOCKING));
    }
    node_add(stream, NULL, node);
    return CUDA_SUCCESS;
}

/* ---- capture ---- */

int sim_cuStreamBeginCapture_v2(void *stream, int mode)
{
    struct stream *origin = stream;
    struct capture *capture;

    if (origin == origin->context->legacy) {
        return CUDA_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (origin->capture != NULL) {
        return CUDA_ILLEGAL_STATE;
    }
    capture = object_new(GRAPH, sizeof *capture);
    capture->origin = origin;
    capture->mode = mode;
    capture->id = ++capture_count;
    capture->owners = 1;
    stream_capture(origin, capture, NULL);
    node_add(origin, NULL, 0);
    return CUDA_SUCCESS;
}

/* Without the lock: the last owner runs what is to run then. */
static void capture_release(void *argument)
{
    struct capture *capture = argument;

    if (atomic_fetch_sub(&capture->owners, 1) != 1) {
        return;
    }
    for (size_t n = 0; n < capture->count; n++) {
        if (capture->nodes[n].op != NULL) {
            op_free(capture->nodes[n].op);
        }
        place_fini(&capture->nodes[n].place);
    }
    for (struct user_object *o = capture->objects; o != NULL; o = o->next) {
        o->destroy(o->user);
    }
}

/* The graph, or an executable, lets go of it. */
static void capture_release_locked(struct capture *capture)
{
    pthread_mutex_unlock(&sim.lock);
    capture_release(capture);
    pthread_mutex_lock(&sim.lock);
}

/* All nodes must come before the end of the stream that began it. */
static bool is_joined(struct capture *capture)
{
    bool joined = true;

    capture->nodes[capture->origin->node].reached = true;
    for (size_t n = capture->count; n-- > 0;) {
        const struct node *node = &capture->nodes[n];

        joined = joined && node->reached;
        capture->nodes[node->before].reached = true;
        capture->nodes[node->after].reached = true;
    }
    return joined;
}

int sim_cuStreamEndCapture(void *stream, void **graph)
{
    struct capture *capture = ((struct stream *)stream)->capture;
    int result = CUDA_SUCCESS;

    *graph = NULL;
    if (capture == NULL || capture->origin != stream) {
        return CUDA_ILLEGAL_STATE;
    }
    if (capture->spoilt) {
        result = CUDA_STREAM_CAPTURE_INVALIDATED;
    } else if (!is_joined(capture)) {
        result = CUDA_STREAM_CAPTURE_UNJOINED;
    }
    for (struct stream *s = sim.streams; s != NULL; s = s->next) {
        s->capture = s->capture == capture ? NULL : s->capture;
    }
    capture->origin = NULL;
    if (result == CUDA_SUCCESS) {
        *graph = capture;
    } else {
        (void)sim_cuGraphDestroy(capture);
    }
    return result;
}

/* Asking about the default stream fails while a blocking stream is captured. */
int sim_cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph,
        const void ***nodes, size_t *count)
{
    const struct context *context = ((struct stream *)stream)->context;
    struct capture *capture = ((struct stream *)stream)->capture;

    if (nodes != NULL || count != NULL) {
        return CUDA_INVALID_VALUE; /* not simulated */
    }
    if (stream == context->legacy && capture_of_blocking(context) != NULL) {
        return CUDA_STREAM_CAPTURE_IMPLICIT;
    }
    *status = capture == NULL ? 0 : capture->spoilt ? 2 : 1;
    if (*status == 1 && id != NULL) {
        *id = capture->id;
    }
    if (*status == 1 && graph != NULL) {
        *graph = capture;
    }
    return CUDA_SUCCESS;
}

int sim_cuStreamIsCapturing(void *stream, int *status)
{
    return sim_cuStreamGetCaptureInfo_v2(stream, status, NULL, NULL, NULL, NULL);
}

int sim_cuThreadExchangeStreamCaptureMode(int *mode)
{
    const int previous = thread_mode;

    thread_mode = *mode;
    *mode = previous;
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

int sim_cuGraphDestroy(void *graph)
{
    object_drop(graph);
    capture_release_locked(graph);
    return CUDA_SUCCESS;
}

/* One reference, which its graph takes over: what NCCL and tutti do. */
int sim_cuUserObjectCreate(void **object, void *user, void (*destroy)(void *),
        unsigned references, unsigned flags)
{
    struct user_object *made = object_new(USER_OBJECT, sizeof *made);

    (void)references;
    (void)flags;
    made->destroy = destroy;
    made->user = user;
    *object = made;
    return CUDA_SUCCESS;
}

int sim_cuGraphRetainUserObject(
        void *graph, void *object, unsigned references, unsigned flags)
{
    struct capture *capture = graph;
    struct user_object *kept = object;

    if (references != 1 || flags != 1) {
        return CUDA_INVALID_VALUE;
    }
    object_drop(kept);
    kept->next = capture->objects;
    capture->objects = kept;
    return CUDA_SUCCESS;
}

int sim_cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    struct capture *capture = graph;
    struct exec *made;

    if (flags != 0 || capture->origin != NULL) {
        return CUDA_INVALID_VALUE;
    }
    made = object_new(EXEC, sizeof *made);
    made->graph = capture;
    (void)atomic_fetch_add(&capture->owners, 1);
    *exec = made;
    return CUDA_SUCCESS;
}

int sim_cuGraphExecDestroy(void *exec)
{
    struct exec *destroyed = exec;

    object_drop(destroyed);
    place_fini(&destroyed->end);
    capture_release_locked(destroyed->graph);
    return CUDA_SUCCESS;
}

/* ---- launches ---- */

/* As the node, but that it lives as long as the launch. */
static struct op *op_again(const struct op *node)
{
    struct op *op = op_new(&node->what);

    op->what.dispose = NULL;
    if (node->what.again != NULL) {
        op->what.argument = node->what.again(node->what.argument);
        op->what.dispose = node->what.dispose;
    }
    return op;
}

static int node_run(struct capture *graph, struct node *node, struct stream *stream)
{
    int result = node->op != NULL
            ? stream_submit(stream, op_again(node->op))
            : place_follow(stream, &graph->nodes[node->after].place);

    place_note(&node->place, stream);
    return result;
}

int sim_cuGraphLaunch(void *exec, void *stream)
{
    struct exec *executable = exec;
    struct capture *graph = executable->graph;
    struct stream *launched = stream;
    struct op *end;
    int result = launched->capture == NULL
            ? place_follow(launched, &executable->end) /* launches do not overlap */
            : CUDA_INVALID_VALUE;

    for (size_t n = 0; n < graph->count && result == CUDA_SUCCESS; n++) {
        struct node *node = &graph->nodes[n];

        result = node_run(graph, node, node->lane == NULL ? launched : node->lane);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    end = op_mark("end of cuGraphLaunch");
    end->what.argument = graph;
    end->what.dispose = capture_release;
    (void)atomic_fetch_add(&graph->owners, 1);
    result = stream_submit(launched, end);
    place_note(&executable->end, launched);
    return result;
}
