/*
 * Events with a count of references. One that nobody refers to is recorded
 * again; streams that wait for it wait for what it stood for when they were told to.
 */
#include <pthread.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/gpu.h"

struct device_event {
    cu_event handle; /* owned */
    _Atomic int references; /* 0: it is spare                                      */
    _Atomic bool has_passed; /* known to have; the driver need not be asked         */
    uint64_t capture; /* in whose graph it is, where nobody may ask; 0: none     */
    struct device_event *next; /* among the spare ones; lock of gpu_events            */
    struct device_event *next_of_all; /* fixed */
};

struct gpu_events {
    pthread_mutex_t lock; /* never held during a call of the driver                */
    struct device_event *spare; /* over next                                        */
    struct device_event *all; /* over next_of_all                                   */
};

tutti_status gpu_events_open(struct gpu *gpu)
{
    gpu->events = mem_calloc(1, sizeof *gpu->events);
    if (gpu->events == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for events on streams");
    }
    (void)pthread_mutex_init(&gpu->events->lock, NULL);
    return TUTTI_OK;
}

void gpu_events_close(struct gpu *gpu)
{
    struct gpu_events *events = gpu->events;

    if (events == NULL) {
        return;
    }
    while (events->all != NULL) {
        struct device_event *event = events->all;

        events->all = event->next_of_all;
        if (!gpu->is_gone) {
            (void)gpu->cuda->event_destroy(event->handle);
        }
        mem_free(event);
    }
    (void)pthread_mutex_destroy(&events->lock);
    mem_free(events);
    gpu->events = NULL;
}

/* ------------------------------------------------------------------------- pool */

static struct device_event *take_spare(struct gpu_events *events)
{
    struct device_event *event;

    (void)pthread_mutex_lock(&events->lock);
    event = events->spare;
    if (event != NULL) {
        events->spare = event->next;
        event->next = NULL;
    }
    (void)pthread_mutex_unlock(&events->lock);
    return event;
}

/* Who waits for an event on the host sleeps. The context is current. */
static tutti_status create(struct gpu *gpu, struct device_event **created)
{
    struct device_event *event = mem_calloc(1, sizeof *event);
    tutti_status status;

    if (event == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an event on a stream");
    }
    status = gpu_check(gpu,
            gpu->cuda->event_create(
                    &event->handle, CU_EVENT_UNTIMED | CU_EVENT_SLEEPING),
            "create an event");
    if (status != TUTTI_OK) {
        mem_free(event);
        return status;
    }
    (void)pthread_mutex_lock(&gpu->events->lock);
    event->next_of_all = gpu->events->all;
    gpu->events->all = event;
    (void)pthread_mutex_unlock(&gpu->events->lock);
    *created = event;
    return TUTTI_OK;
}

/* The context is current. */
static tutti_status obtain(struct gpu *gpu, struct device_event **obtained)
{
    struct device_event *event = take_spare(gpu->events);
    tutti_status status = TUTTI_OK;

    if (event == NULL) {
        status = create(gpu, &event);
    }
    if (status == TUTTI_OK) {
        atomic_store_explicit(&event->references, 1, memory_order_relaxed);
        atomic_store_explicit(&event->has_passed, true, memory_order_relaxed);
        event->capture = 0;
        *obtained = event;
    }
    return status;
}

void gpu_event_hold(struct device_event *event)
{
    (void)atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
}

void gpu_event_release(struct gpu *gpu, struct device_event *event)
{
    /* acq_rel: who records it next has seen all uses */
    if (event == NULL ||
            atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) !=
                    1) {
        return;
    }
    (void)pthread_mutex_lock(&gpu->events->lock);
    event->next = gpu->events->spare;
    gpu->events->spare = event;
    (void)pthread_mutex_unlock(&gpu->events->lock);
}

/* -------------------------------------------------------------------- recording */

/* The context is current. */
static cu_result record(
        const struct gpu *gpu, struct device_event *event, cu_stream stream)
{
    const cu_result result = gpu->cuda->event_record(event->handle, stream);

    if (result == CU_SUCCESS) {
        atomic_store_explicit(&event->has_passed, false, memory_order_relaxed);
    }
    return result;
}

/* The context is current. */
static cu_result follow(
        const struct gpu *gpu, cu_stream stream, const struct device_event *event)
{
    /* Also one that is known to have passed: the stream, too, is to see what it stands for. */
    return gpu->cuda->stream_wait_event(stream, event->handle, 0);
}

tutti_status gpu_event_new(struct gpu *gpu, struct device_event **event)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = obtain(gpu, event);
        gpu_leave(gpu);
    }
    return status;
}

tutti_status gpu_event_record(
        struct gpu *gpu, struct device_event *event, cu_stream stream)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = gpu_check(gpu, record(gpu, event, stream), "record an event");
        gpu_leave(gpu);
    }
    return status;
}

tutti_status gpu_record_captured(
        struct gpu *gpu, cu_stream stream, uint64_t capture, struct device_event **made)
{
    struct device_event *event = NULL;
    tutti_status status = gpu_enter(gpu);

    if (status != TUTTI_OK) {
        return status;
    }
    status = obtain(gpu, &event);
    if (status == TUTTI_OK) {
        event->capture = capture;
        status = gpu_check(gpu, record(gpu, event, stream), "record an event");
    }
    gpu_leave(gpu);
    if (status != TUTTI_OK) {
        gpu_event_release(gpu, event);
        return status;
    }
    *made = event;
    return TUTTI_OK;
}

tutti_status gpu_record(struct gpu *gpu, cu_stream stream, struct device_event **made)
{
    return gpu_record_captured(gpu, stream, 0, made);
}

uint64_t gpu_event_capture(const struct device_event *event)
{
    return event->capture;
}

tutti_status gpu_follow(struct gpu *gpu, cu_stream stream, struct device_event *event)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = gpu_check(
                gpu, follow(gpu, stream, event), "make a stream wait for an event");
        gpu_leave(gpu);
    }
    return status;
}

/* ---------------------------------------------------------------------- waiting */

/* Asks, or waits, with one of two calls of the driver. */
static tutti_status ask(struct gpu *gpu, struct device_event *event,
        cu_result (*call)(cu_event handle), const char *doing)
{
    tutti_status status = gpu_enter(gpu);
    cu_result result;

    if (status != TUTTI_OK) {
        return status;
    }
    result = call(event->handle);
    gpu_leave(gpu);
    if (result == CU_ERROR_NOT_READY) {
        return TUTTI_AGAIN;
    }
    if (result == CU_SUCCESS) {
        atomic_store_explicit(&event->has_passed, true, memory_order_relaxed);
    }
    return gpu_check(gpu, result, doing);
}

tutti_status gpu_passed(struct gpu *gpu, struct device_event *event)
{
    if (atomic_load_explicit(&event->has_passed, memory_order_relaxed)) {
        return gpu_alive(gpu);
    }
    return ask(gpu, event, gpu->cuda->event_query, "finish what it was given to do");
}

tutti_status gpu_event_wait(struct gpu *gpu, struct device_event *event)
{
    return ask(
            gpu, event, gpu->cuda->event_synchronize, "finish what it was given to do");
}

/* ----------------------------------------------------------- streams of the caller */

static bool is_default(cu_stream stream)
{
    /* As numbers: NULL, CU_LEGACY_STREAM and CU_THREAD_STREAM are 0, 1 and 2. */
    return (uintptr_t)stream <= 2;
}

/* Device of another context, for words; -1: unknown. */
static int device_of(const struct gpu *gpu, cu_context context)
{
    cu_context popped = NULL;
    cu_device device = -1;

    if (gpu->cuda->ctx_push_current(context) == CU_SUCCESS) {
        if (gpu->cuda->ctx_get_device(&device) != CU_SUCCESS) {
            device = -1;
        }
        (void)gpu->cuda->ctx_pop_current(&popped);
    }
    return device;
}

static tutti_status refuse_foreign(
        const struct gpu *gpu, cu_stream stream, cu_context context)
{
    const cu_device device = device_of(gpu, context);

    if (device == gpu->device) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d: stream %p is of a context of its own (cuCtxCreate()); tutti "
                "works in the primary context of GPU %d, the one that the CUDA runtime "
                "uses: pass a stream of that",
                gpu->rank, (void *)stream, gpu->ordinal);
    }
    return error_set(TUTTI_ERR_INVALID,
            "rank %d: stream %p is of GPU %d, but this rank's is GPU %d (%s): call "
            "cudaSetDevice(%d) before the stream is created, or choose the rank's GPU "
            "with the parameter gpu",
            gpu->rank, (void *)stream, device, gpu->ordinal, gpu->pci, gpu->ordinal);
}

/* Why tutti's operations cannot be in a graph; NULL: they can. */
static const char *why_not_captured(const struct gpu *gpu)
{
    if (gpu->config->issue != CONFIG_ISSUE_CALLER) {
        return "with issue=auto another thread issues them when all ranks are there, "
               "so set issue=caller";
    }
    if (gpu->nccl == NULL) {
        return "there is no NCCL";
    }
    return gpu->cuda->stream_get_capture_info != NULL &&
                    gpu->cuda->user_object_create != NULL &&
                    gpu->cuda->graph_retain_user_object != NULL
            ? NULL
            : "that takes a driver of CUDA 11.3";
}

static tutti_status refuse_capture(const struct gpu *gpu, cu_stream stream)
{
    const char *why = why_not_captured(gpu);

    return error_set(TUTTI_ERR_INVALID,
            "rank %d: stream %p is being captured in a CUDA graph, and tutti's "
            "operations cannot be part of this one: %s; or submit and wait outside of "
            "the capture",
            gpu->rank, (void *)stream,
            why != NULL ? why : "the capture is invalid after an error");
}

static bool is_capture_error(cu_result result)
{
    return result >= CU_ERROR_CAPTURE_UNSUPPORTED && result <= CU_ERROR_CAPTURED_EVENT;
}

/*
 * A result of a call on a stream of the caller. Our own context was looked at when it was
 * entered: what is wrong with a context here is about the caller's.
 */
static tutti_status check_caller(
        struct gpu *gpu, cu_stream stream, cu_result result, const char *doing)
{
    if (is_capture_error(result)) {
        return refuse_capture(gpu, stream);
    }
    if (result == CU_ERROR_INVALID_HANDLE || result == CU_ERROR_INVALID_CONTEXT ||
            result == CU_ERROR_CONTEXT_DESTROYED) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d: %p is no stream of GPU %d, or not any more: cannot %s: %s "
                "(%s)",
                gpu->rank, (void *)stream, gpu->ordinal, doing,
                driver_error_text(gpu->cuda, result),
                driver_error_name(gpu->cuda, result));
    }
    return gpu_check(gpu, result, doing);
}

/* The context is current. *id: the capture that it is part of, or 0. */
static tutti_status look_at_capture(struct gpu *gpu, cu_stream stream, uint64_t *id)
{
    cu_capture_status capture = CU_CAPTURE_NONE;
    cu_result result = gpu->cuda->stream_is_capturing(stream, &capture);

    *id = 0;
    if (result == CU_ERROR_CAPTURE_IMPLICIT) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d: the legacy default stream cannot be used while another "
                "stream is captured in a CUDA graph: pass the stream that the tensors "
                "are of in tutti_options.stream",
                gpu->rank);
    }
    if (result == CU_SUCCESS && capture == CU_CAPTURE_ACTIVE &&
            why_not_captured(gpu) == NULL) {
        result = gpu->cuda->stream_get_capture_info(
                stream, &capture, id, NULL, NULL, NULL);
    }
    if (is_capture_error(result) || (capture != CU_CAPTURE_NONE && *id == 0)) {
        return refuse_capture(gpu, stream);
    }
    return check_caller(gpu, stream, result, "look at the caller's stream");
}

/* The context is current. */
static tutti_status look_at_stream(struct gpu *gpu, cu_stream stream, uint64_t *capture)
{
    cu_context context = gpu->context;
    tutti_status status = TUTTI_OK;

    if (!is_default(stream)) {
        status = check_caller(gpu, stream, gpu->cuda->stream_get_ctx(stream, &context),
                "find the context of the caller's stream");
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (context != gpu->context) {
        return refuse_foreign(gpu, stream, context);
    }
    return look_at_capture(gpu, stream, capture);
}

/* The context is current. */
static tutti_status record_caller(
        struct gpu *gpu, cu_stream stream, struct device_event **made)
{
    struct device_event *event = NULL;
    uint64_t capture = 0;
    tutti_status status = look_at_stream(gpu, stream, &capture);

    if (status == TUTTI_OK) {
        status = obtain(gpu, &event);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    event->capture = capture;
    status = check_caller(gpu, stream, record(gpu, event, stream),
            "record an event on the caller's stream");
    if (status != TUTTI_OK) {
        gpu_event_release(gpu, event);
        return status;
    }
    *made = event;
    return TUTTI_OK;
}

tutti_status gpu_record_caller(
        struct gpu *gpu, cu_stream stream, struct device_event **event)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = record_caller(gpu, stream, event);
        gpu_leave(gpu);
    }
    return status;
}

/* The driver would refuse one, and make the capture invalid; and draw the stream into another. */
static tutti_status check_captures(const struct gpu *gpu, cu_stream stream,
        uint64_t capture, const struct device_event *event)
{
    if (capture == event->capture) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            event->capture != 0
                    ? "rank %d: the operation is part of a CUDA graph, and stream %p "
                      "is not being captured in it: wait on a stream that is"
                    : "rank %d: stream %p is being captured in a CUDA graph, and the "
                      "operation was submitted outside of it: wait for it before the "
                      "capture begins",
            gpu->rank, (void *)stream);
}

tutti_status gpu_follow_caller(
        struct gpu *gpu, cu_stream stream, struct device_event *event)
{
    uint64_t capture = 0;
    tutti_status status = gpu_enter(gpu);

    if (status != TUTTI_OK) {
        return status;
    }
    status = look_at_stream(gpu, stream, &capture);
    if (status == TUTTI_OK) {
        status = check_captures(gpu, stream, capture, event);
    }
    if (status == TUTTI_OK) {
        status = check_caller(gpu, stream, follow(gpu, stream, event),
                "make the caller's stream wait for an event");
    }
    gpu_leave(gpu);
    return status;
}
