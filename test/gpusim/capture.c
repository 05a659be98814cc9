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

enum capture_mode {
    MODE_GLOBAL = 0,
    MODE_THREAD = 1,
    MODE_RELAXED = 2
};

/* A stream in a capture. */
struct lane {
    struct lane *next;
    struct stream *stream; /* that is captured */
    size_t last; /* its newest node; 0: there is none */
    struct stream *runs; /* of the graph: takes its nodes at a launch */
};

/* Numbered from 1; number 0 is the beginning. */
struct node {
    struct lane *lane;
    struct op *op; /* owned; NULL: only waits */
    size_t before; /* in its lane */
    size_t after; /* what it waits for in another one */
    bool reached; /* the end comes after it */
    struct stream *stream; /* in the launch in work, and its place there */
    uint64_t sequence;
    struct clock clock;
};

/* What belongs to a graph. */
struct user_object {
    struct user_object *next;
    void (*destroy)(void *user);
    void *user;
};

/* And the graph that comes out of it. Never freed: events remember it. */
struct capture {
    struct capture *next;
    struct stream *origin; /* NULL: it has ended */
    const void *thread; /* that began it      */
    enum capture_mode mode;
    uint64_t id;
    void *handle; /* of the graph */
    struct lane *lanes; /* that of the origin is the last in the list */
    struct node *nodes; /* owned; node n is nodes[n] */
    size_t count, capacity; /* nodes, number 0 included */
    struct user_object *objects; /* owned */
    atomic_int owners; /* the graph, executables, and launches in work */
    bool spoilt;
};

/* An executable. */
struct exec {
    struct capture *graph;
    struct stream *last; /* that it was launched on last; NULL: none */
    uint64_t sequence; /* the end of that launch */
};

static struct capture *captures;
static uint64_t capture_count;
static _Thread_local enum capture_mode thread_mode; /* what this thread asks for */

/* ---- rules ---- */

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

/* ---- nodes ---- */

static struct lane *lane_add(struct capture *capture, struct stream *stream)
{
    struct lane *lane = calloc(1, sizeof *lane);

    *lane = (struct lane){ .next = capture->lanes, .stream = stream };
    capture->lanes = lane;
    stream->capture = capture;
    return lane;
}

static struct lane *lane_of(const struct stream *stream)
{
    struct lane *lane = stream->capture->lanes;

    while (lane->stream != stream) {
        lane = lane->next;
    }
    return lane;
}

static void node_add(struct stream *stream, struct op *op, size_t after)
{
    struct capture *capture = stream->capture;
    struct lane *lane = lane_of(stream);

    if (capture->count == capture->capacity) {
        capture->capacity = 2 * capture->capacity + 8;
        capture->nodes =
                realloc(capture->nodes, capture->capacity * sizeof *capture->nodes);
    }
    capture->nodes[capture->count] = (struct node){
        .lane = lane, .op = op, .before = lane->last, .after = after
    };
    lane->last = capture->count++;
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

size_t capture_place(const struct stream *stream)
{
    return lane_of(stream)->last;
}

int capture_follow(struct stream *stream, struct capture *capture, size_t place)
{
    if (capture->origin == NULL ||
            (stream->capture != NULL && stream->capture != capture)) {
        capture_spoil(stream->capture != NULL ? stream->capture : capture);
        return CUDA_STREAM_CAPTURE_ISOLATION;
    }
    if (stream->capture == NULL) {
        (void)lane_add(capture, stream);
    }
    node_add(stream, NULL, place);
    return CUDA_SUCCESS;
}

/* ---- capture ---- */

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
        .id = ++capture_count,
        .owners = 1,
    };
    capture->handle = handle_new(HANDLE_GRAPH, capture);
    captures = capture;
    (void)lane_add(capture, stream);
    node_add(stream, NULL, 0);
    return CUDA_SUCCESS;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    struct stream *found;
    int result = stream_enter("cuStreamBeginCapture_v2", stream, &found);

    return sim_leave(result == CUDA_SUCCESS ? capture_begin(found, mode) : result);
}

/* The last owner runs what is to run then; without the lock. */
static void capture_release(void *argument)
{
    struct capture *capture = argument;

    if (atomic_fetch_sub(&capture->owners, 1) != 1) {
        return;
    }
    for (size_t n = 0; n < capture->count; n++) {
        struct op *op = capture->nodes[n].op;

        if (op != NULL && op->dispose != NULL) {
            op->dispose(op->argument);
        }
    }
    for (struct user_object *o = capture->objects; o != NULL; o = o->next) {
        o->destroy(o->user);
    }
}

/* All nodes must come before the end of the stream that began it. */
static bool is_joined(struct capture *capture)
{
    struct lane *origin = capture->lanes;
    bool joined = true;

    while (origin->next != NULL) {
        origin = origin->next;
    }
    capture->nodes[origin->last].reached = true;
    for (size_t n = capture->count; n-- > 0;) {
        const struct node *node = &capture->nodes[n];

        joined = joined && node->reached;
        capture->nodes[node->before].reached = true;
        capture->nodes[node->after].reached = true;
    }
    return joined;
}

static int capture_end(struct stream *stream, void **graph)
{
    struct capture *capture = stream->capture;

    *graph = NULL;
    if (capture == NULL || capture->origin != stream) {
        return CUDA_ILLEGAL_STATE;
    }
    for (struct lane *lane = capture->lanes; lane != NULL; lane = lane->next) {
        lane->stream->capture = NULL;
    }
    capture->origin = NULL;
    if (!capture->spoilt && is_joined(capture)) {
        *graph = capture->handle;
        return CUDA_SUCCESS;
    }
    handle_drop(HANDLE_GRAPH, capture->handle);
    return capture->spoilt ? CUDA_STREAM_CAPTURE_INVALIDATED
                           : CUDA_STREAM_CAPTURE_UNJOINED;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    struct stream *found;
    struct capture *capture = NULL;
    int result = stream_enter("cuStreamEndCapture", stream, &found);

    if (result == CUDA_SUCCESS) {
        capture = found->capture;
        result = capture_end(found, graph);
    }
    sim_leave(result);
    if (capture != NULL && capture->origin == NULL && *graph == NULL) {
        capture_release(capture);
    }
    return result;
}

static int capture_status(const struct stream *stream)
{
    if (stream->capture == NULL) {
        return 0;
    }
    return stream->capture->spoilt ? 2 : 1;
}

/* Asking about the default stream fails while a blocking stream is captured. */
int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph,
        const void ***nodes, size_t *count)
{
    struct stream *found;
    int result = stream_enter("cuStreamGetCaptureInfo_v2", stream, &found);

    if (result == CUDA_SUCCESS && (nodes != NULL || count != NULL)) {
        result = CUDA_INVALID_VALUE; /* not simulated */
    }
    if (result == CUDA_SUCCESS && found == found->context->legacy &&
            capture_of_blocking(found->context) != NULL) {
        result = CUDA_STREAM_CAPTURE_IMPLICIT;
    }
    if (result == CUDA_SUCCESS) {
        *status = capture_status(found);
    }
    if (result == CUDA_SUCCESS && *status == 1 && id != NULL) {
        *id = found->capture->id;
    }
    if (result == CUDA_SUCCESS && *status == 1 && graph != NULL) {
        *graph = found->capture->handle;
    }
    return sim_leave(result);
}

int cuStreamIsCapturing(void *stream, int *status)
{
    return cuStreamGetCaptureInfo_v2(stream, status, NULL, NULL, NULL, NULL);
}

bool gpusim_is_captured(const void *stream)
{
    const struct stream *found;
    bool captured;

    pthread_mutex_lock(&sim.lock);
    found = stream_peek(stream);
    captured = found != NULL && found->capture != NULL;
    pthread_mutex_unlock(&sim.lock);
    return captured;
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

/* ---- graphs ---- */

static int graph_enter(const char *function, void *graph, struct capture **found)
{
    int result = sim_enter(function, NEEDS_INIT);

    *found = handle_find(HANDLE_GRAPH, graph);
    return result == CUDA_SUCCESS && *found == NULL ? CUDA_INVALID_VALUE : result;
}

int cuGraphDestroy(void *graph)
{
    struct capture *found;
    int result = graph_enter("cuGraphDestroy", graph, &found);

    if (result == CUDA_SUCCESS) {
        handle_drop(HANDLE_GRAPH, graph);
    }
    sim_leave(result);
    if (result == CUDA_SUCCESS) {
        capture_release(found);
    }
    return result;
}

int cuGraphGetNodes(void *graph, void **nodes, size_t *count)
{
    struct capture *found;
    int result = graph_enter("cuGraphGetNodes", graph, &found);

    if (result == CUDA_SUCCESS && nodes != NULL) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *count = 0;
        for (size_t n = 0; n < found->count; n++) {
            *count += found->nodes[n].op != NULL ? 1 : 0;
        }
    }
    return sim_leave(result);
}

/* One reference, which its graph takes over: what NCCL and tutti do. */
int cuUserObjectCreate(void **object, void *user, void (*destroy)(void *),
        unsigned references, unsigned flags)
{
    int result = sim_enter("cuUserObjectCreate", NEEDS_INIT);

    if (result == CUDA_SUCCESS && (references != 1 || flags != 1)) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        struct user_object *made = calloc(1, sizeof *made);

        *made = (struct user_object){ .destroy = destroy, .user = user };
        *object = handle_new(HANDLE_USER_OBJECT, made);
    }
    return sim_leave(result);
}

int cuGraphRetainUserObject(
        void *graph, void *object, unsigned references, unsigned flags)
{
    struct capture *found;
    int result = graph_enter("cuGraphRetainUserObject", graph, &found);
    struct user_object *kept = handle_find(HANDLE_USER_OBJECT, object);

    if (result == CUDA_SUCCESS && (kept == NULL || references != 1 || flags != 1)) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        handle_drop(HANDLE_USER_OBJECT, object);
        kept->next = found->objects;
        found->objects = kept;
    }
    return sim_leave(result);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    struct capture *found;
    int result = graph_enter("cuGraphInstantiateWithFlags", graph, &found);

    if (result == CUDA_SUCCESS && (flags != 0 || found->origin != NULL)) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        struct exec *made = calloc(1, sizeof *made);

        made->graph = found;
        (void)atomic_fetch_add(&found->owners, 1);
        *exec = handle_new(HANDLE_EXEC, made);
    }
    return sim_leave(result);
}

int cuGraphExecDestroy(void *exec)
{
    int result = sim_enter("cuGraphExecDestroy", NEEDS_INIT);
    struct exec *found = handle_find(HANDLE_EXEC, exec);
    struct capture *graph = NULL;

    if (result == CUDA_SUCCESS && found == NULL) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        graph = found->graph;
        handle_drop(HANDLE_EXEC, exec);
        free(found);
    }
    sim_leave(result);
    if (graph != NULL) {
        capture_release(graph);
    }
    return result;
}

/* ---- launches ---- */

/* As the node, but that it lives as long as the launch. */
static struct op *op_again(const struct op *node)
{
    struct op *op = op_new(node->label, node->kind);

    op->body = node->body;
    op->ranges = node->ranges;
    op->argument = node->argument;
    if (node->again != NULL) {
        op->argument = node->again(node->argument);
        op->dispose = node->dispose;
    }
    for (size_t i = 0; node->accesses != NULL && i < node->accesses->read_count; i++) {
        gpusim_reads(op_accesses(op), node->accesses->reads[i].start,
                node->accesses->reads[i].bytes);
    }
    for (size_t i = 0; node->accesses != NULL && i < node->accesses->write_count; i++) {
        gpusim_writes(op_accesses(op), node->accesses->writes[i].start,
                node->accesses->writes[i].bytes);
    }
    return op;
}

static int node_run(struct capture *graph, struct node *node, struct stream *stream)
{
    const struct node *after = &graph->nodes[node->after];
    struct op *op = node->op != NULL ? op_again(node->op)
                                     : op_new("cuStreamWaitEvent", OP_EMPTY);
    int result;

    if (node->op == NULL && after->stream != NULL) {
        clock_join(&stream->clock, &after->clock);
        op_depend(op, after->stream, after->sequence);
    }
    result = stream_submit(stream, op);
    node->stream = stream;
    node->sequence = stream->submitted;
    clock_fini(&node->clock);
    node->clock = clock_copy(&stream->clock);
    return result;
}

static struct stream *stream_for(struct lane *lane, struct stream *launched)
{
    if (lane->next == NULL) {
        return launched;
    }
    if (lane->runs == NULL) {
        lane->runs = stream_new(launched->context, "graph's stream");
        lane->runs->flags = STREAM_NON_BLOCKING;
    }
    return lane->runs;
}

static int graph_launch(struct exec *exec, struct stream *stream)
{
    struct capture *graph = exec->graph;
    struct op *op = op_new("cuGraphLaunch", OP_EMPTY);
    int result;

    if (exec->last != NULL) { /* launches of an executable do not overlap */
        op_depend(op, exec->last, exec->sequence);
        clock_join(&stream->clock, &exec->last->clock);
    }
    result = stream_submit(stream, op);
    for (size_t n = 0; n < graph->count && result == CUDA_SUCCESS; n++) {
        struct node *node = &graph->nodes[n];

        result = node_run(graph, node, stream_for(node->lane, stream));
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    op = op_new("end of cuGraphLaunch", OP_EMPTY);
    op->dispose = capture_release;
    op->argument = graph;
    (void)atomic_fetch_add(&graph->owners, 1);
    result = stream_submit(stream, op);
    exec->last = stream;
    exec->sequence = stream->submitted;
    return result;
}

int cuGraphLaunch(void *exec, void *stream)
{
    struct stream *found;
    struct exec *executable;
    int result = stream_enter("cuGraphLaunch", stream, &found);

    executable = handle_find(HANDLE_EXEC, exec);
    if (result == CUDA_SUCCESS && (executable == NULL || found->capture != NULL)) {
        result = CUDA_INVALID_VALUE;
    }
    return sim_leave(result == CUDA_SUCCESS ? graph_launch(executable, found) : result);
}
