/*
 * CUDA graphs that contain batches: one record for each capture, which owns the memory that its
 * batches pack into. CUDA tells when the graph and all its executables are gone; then other
 * captures and batches may have that memory.
 */
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/gpu.h"

struct gpu_graph {
    struct gpu_graph *next;
    uint64_t capture; /* CUDA's number of it, never used again                    */
    struct gpu_slab *slabs; /* owned; newest, and so largest, first                */
    struct device_event *last; /* of its last batch; a reference; NULL: none         */
    _Atomic int owners; /* this list, and the graph; the last one frees it      */
};

static bool let_go(struct gpu_graph *graph)
{
    /* acq_rel: the last one frees what the other has written */
    return atomic_fetch_sub_explicit(&graph->owners, 1, memory_order_acq_rel) == 1;
}

/* On a thread of CUDA's, perhaps after gpu_close(). */
static void on_end(void *user)
{
    if (let_go(user)) {
        mem_free(user);
    }
}

static bool is_alive(const struct gpu_graph *graph)
{
    return atomic_load_explicit(&graph->owners, memory_order_acquire) > 1;
}

static void forget(struct gpu *gpu, struct gpu_graph *graph)
{
    gpu_event_release(gpu, graph->last);
    if (let_go(graph)) {
        mem_free(graph);
    }
}

size_t gpu_graphs_count(struct gpu *gpu)
{
    struct gpu_graph **at = &gpu->graphs;
    size_t count = 0;

    while (*at != NULL) {
        struct gpu_graph *graph = *at;

        if (is_alive(graph)) {
            count++;
            at = &graph->next;
            continue;
        }
        *at = graph->next;
        while (graph->slabs != NULL) {
            struct gpu_slab *slab = graph->slabs;

            graph->slabs = slab->next;
            gpu_slab_give(gpu, slab, NULL);
        }
        forget(gpu, graph);
    }
    return count;
}

void gpu_graphs_close(struct gpu *gpu)
{
    while (gpu->graphs != NULL) {
        struct gpu_graph *graph = gpu->graphs;

        gpu->graphs = graph->next;
        forget(gpu, graph);
    }
}

/* The graph tells when it ends. On failure CUDA has no hold of the record. */
static tutti_status attach(struct gpu *gpu, cu_graph handle, struct gpu_graph *graph)
{
    const struct cuda_driver *cuda = gpu->cuda;
    cu_user_object object = NULL;
    cu_result result;

    result = cuda->user_object_create(
            &object, graph, on_end, 1, CU_USER_OBJECT_UNORDERED);
    if (result == CU_SUCCESS) {
        /* That it is not attached leaves a few bytes behind. */
        result = cuda->graph_retain_user_object(handle, object, 1, CU_USER_OBJECT_MOVE);
    }
    return gpu_check(gpu, result, "have memory belong to a CUDA graph");
}

tutti_status gpu_graph_find(struct gpu *gpu, cu_stream stream, struct gpu_graph **found)
{
    cu_capture_status capturing = CU_CAPTURE_NONE;
    cu_graph handle = NULL;
    uint64_t capture = 0;
    struct gpu_graph *graph;
    tutti_status status;

    (void)gpu_graphs_count(gpu);
    status = gpu_check(gpu,
            gpu->cuda->stream_get_capture_info(
                    stream, &capturing, &capture, &handle, NULL, NULL),
            "look at a stream that is being captured");
    if (status == TUTTI_OK && capturing != CU_CAPTURE_ACTIVE) {
        status = error_set(TUTTI_ERR_INVALID,
                "rank %d: the capture of stream %p has ended, or was made invalid, "
                "before all its operations were in the CUDA graph",
                gpu->rank, (void *)stream);
    }
    for (graph = gpu->graphs; graph != NULL && graph->capture != capture;) {
        graph = graph->next;
    }
    *found = graph;
    if (status != TUTTI_OK || graph != NULL) {
        return status;
    }
    graph = mem_calloc(1, sizeof *graph);
    if (graph == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a CUDA graph");
    }
    *graph = (struct gpu_graph){ .next = gpu->graphs, .capture = capture };
    atomic_store_explicit(&graph->owners, 2, memory_order_relaxed);
    status = attach(gpu, handle, graph);
    if (status == TUTTI_OK) {
        gpu->graphs = graph;
        *found = graph;
    } else {
        mem_free(graph);
    }
    return status;
}

tutti_status gpu_graph_follow(struct gpu *gpu, const struct gpu_graph *graph,
        cu_stream stream, struct device_event *const *after, size_t count)
{
    tutti_status status = TUTTI_OK;

    if (graph->last != NULL) {
        status = gpu_follow(gpu, stream, graph->last);
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (gpu_event_capture(after[i]) != graph->capture) {
            return error_set(TUTTI_ERR_INVALID,
                    "rank %d: an operation was submitted in another capture of a CUDA "
                    "graph than the one of stream %p, where it would have to be put "
                    "now: call tutti_wait_stream() for all operations of a capture "
                    "before it ends",
                    gpu->rank, (void *)stream);
        }
        status = gpu_follow(gpu, stream, after[i]);
    }
    return status;
}

tutti_status gpu_graph_record(struct gpu *gpu, struct gpu_graph *graph,
        cu_stream stream, struct device_event **event)
{
    const tutti_status status = gpu_record_captured(gpu, stream, graph->capture, event);

    if (status == TUTTI_OK) {
        gpu_event_release(gpu, graph->last);
        graph->last = *event;
        gpu_event_hold(*event);
    }
    return status;
}

/* Batches of a graph follow each other, and so may use the same memory. */
struct gpu_slab *gpu_graph_slab(struct gpu *gpu, struct gpu_graph *graph, size_t bytes)
{
    struct gpu_slab *slab = graph->slabs;

    if (slab != NULL && slab->stretch.bytes >= bytes) {
        return slab;
    }
    slab = gpu_slab_take(gpu, bytes, NULL);
    if (slab != NULL) {
        slab->next = graph->slabs;
        graph->slabs = slab;
    }
    return slab;
}
