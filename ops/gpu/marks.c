/*
 * Marks: events with a count of references. An event that nobody refers to is recorded
 * again; streams that wait for it wait for what it stood for when they were told to.
 */
#include <pthread.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/gpu.h"

struct device_mark {
    cu_event event; /* owned */
    _Atomic int references; /* 0: it is spare                                      */
    _Atomic bool has_passed; /* known to have; the driver need not be asked         */
    struct device_mark *next; /* among the spare ones; lock of gpu_marks            */
    struct device_mark *next_of_all; /* fixed */
};

struct gpu_marks {
    pthread_mutex_t lock; /* never held during a call of the driver                */
    struct device_mark *spare; /* over next                                        */
    struct device_mark *all; /* over next_of_all                                   */
};

tutti_status gpu_marks_open(struct gpu *gpu)
{
    gpu->marks = mem_calloc(1, sizeof *gpu->marks);
    if (gpu->marks == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for marks on streams");
    }
    (void)pthread_mutex_init(&gpu->marks->lock, NULL);
    return TUTTI_OK;
}

void gpu_marks_close(struct gpu *gpu)
{
    struct gpu_marks *marks = gpu->marks;

    if (marks == NULL) {
        return;
    }
    while (marks->all != NULL) {
        struct device_mark *mark = marks->all;

        marks->all = mark->next_of_all;
        if (!gpu->is_gone) {
            (void)gpu->cuda->event_destroy(mark->event);
        }
        mem_free(mark);
    }
    (void)pthread_mutex_destroy(&marks->lock);
    mem_free(marks);
    gpu->marks = NULL;
}

/* ------------------------------------------------------------------------- pool */

static struct device_mark *take_spare(struct gpu_marks *marks)
{
    struct device_mark *mark;

    (void)pthread_mutex_lock(&marks->lock);
    mark = marks->spare;
    if (mark != NULL) {
        marks->spare = mark->next;
        mark->next = NULL;
    }
    (void)pthread_mutex_unlock(&marks->lock);
    return mark;
}

/* Who waits for an event on the host sleeps. The context is current. */
static tutti_status create(struct gpu *gpu, struct device_mark **created)
{
    struct device_mark *mark = mem_calloc(1, sizeof *mark);
    tutti_status status;

    if (mark == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a mark on a stream");
    }
    status = gpu_check(gpu,
            gpu->cuda->event_create(&mark->event, CU_EVENT_UNTIMED | CU_EVENT_SLEEPING),
            "create an event");
    if (status != TUTTI_OK) {
        mem_free(mark);
        return status;
    }
    (void)pthread_mutex_lock(&gpu->marks->lock);
    mark->next_of_all = gpu->marks->all;
    gpu->marks->all = mark;
    (void)pthread_mutex_unlock(&gpu->marks->lock);
    *created = mark;
    return TUTTI_OK;
}

/* The context is current. */
static tutti_status obtain(struct gpu *gpu, struct device_mark **obtained)
{
    struct device_mark *mark = take_spare(gpu->marks);
    tutti_status status = TUTTI_OK;

    if (mark == NULL) {
        status = create(gpu, &mark);
    }
    if (status == TUTTI_OK) {
        atomic_store_explicit(&mark->references, 1, memory_order_relaxed);
        atomic_store_explicit(&mark->has_passed, true, memory_order_relaxed);
        *obtained = mark;
    }
    return status;
}

void gpu_mark_hold(struct device_mark *mark)
{
    (void)atomic_fetch_add_explicit(&mark->references, 1, memory_order_relaxed);
}

void gpu_mark_release(struct gpu *gpu, struct device_mark *mark)
{
    /* acq_rel: who records it next has seen all uses */
    if (mark == NULL ||
            atomic_fetch_sub_explicit(&mark->references, 1, memory_order_acq_rel) !=
                    1) {
        return;
    }
    (void)pthread_mutex_lock(&gpu->marks->lock);
    mark->next = gpu->marks->spare;
    gpu->marks->spare = mark;
    (void)pthread_mutex_unlock(&gpu->marks->lock);
}

/* -------------------------------------------------------------------- recording */

/* The context is current. */
static cu_result record(
        const struct gpu *gpu, struct device_mark *mark, cu_stream stream)
{
    const cu_result result = gpu->cuda->event_record(mark->event, stream);

    if (result == CU_SUCCESS) {
        atomic_store_explicit(&mark->has_passed, false, memory_order_relaxed);
    }
    return result;
}

/* The context is current. */
static cu_result follow(
        const struct gpu *gpu, cu_stream stream, const struct device_mark *mark)
{
    /* Also one that is known to have passed: the stream, too, is to see what it stands for. */
    return gpu->cuda->stream_wait_event(stream, mark->event, 0);
}

tutti_status gpu_mark_new(struct gpu *gpu, struct device_mark **mark)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = obtain(gpu, mark);
        gpu_leave(gpu);
    }
    return status;
}

tutti_status gpu_mark_set(struct gpu *gpu, struct device_mark *mark, cu_stream stream)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = gpu_check(gpu, record(gpu, mark, stream), "record an event");
        gpu_leave(gpu);
    }
    return status;
}

tutti_status gpu_mark(struct gpu *gpu, cu_stream stream, struct device_mark **made)
{
    struct device_mark *mark = NULL;
    tutti_status status = gpu_enter(gpu);

    if (status != TUTTI_OK) {
        return status;
    }
    status = obtain(gpu, &mark);
    if (status == TUTTI_OK) {
        status = gpu_check(gpu, record(gpu, mark, stream), "record an event");
    }
    gpu_leave(gpu);
    if (status != TUTTI_OK) {
        gpu_mark_release(gpu, mark);
        return status;
    }
    *made = mark;
    return TUTTI_OK;
}

tutti_status gpu_follow(struct gpu *gpu, cu_stream stream, struct device_mark *mark)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = gpu_check(
                gpu, follow(gpu, stream, mark), "make a stream wait for an event");
        gpu_leave(gpu);
    }
    return status;
}

/* ---------------------------------------------------------------------- waiting */

/* Asks, or waits, with one of two calls of the driver. */
static tutti_status ask(struct gpu *gpu, struct device_mark *mark,
        cu_result (*call)(cu_event event), const char *doing)
{
    tutti_status status = gpu_enter(gpu);
    cu_result result;

    if (status != TUTTI_OK) {
        return status;
    }
    result = call(mark->event);
    gpu_leave(gpu);
    if (result == CU_ERROR_NOT_READY) {
        return TUTTI_AGAIN;
    }
    if (result == CU_SUCCESS) {
        atomic_store_explicit(&mark->has_passed, true, memory_order_relaxed);
    }
    return gpu_check(gpu, result, doing);
}

tutti_status gpu_passed(struct gpu *gpu, struct device_mark *mark)
{
    if (atomic_load_explicit(&mark->has_passed, memory_order_relaxed)) {
        return gpu_alive(gpu);
    }
    return ask(gpu, mark, gpu->cuda->event_query, "finish what it was given to do");
}

tutti_status gpu_mark_wait(struct gpu *gpu, struct device_mark *mark)
{
    return ask(
            gpu, mark, gpu->cuda->event_synchronize, "finish what it was given to do");
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

static tutti_status refuse_capture(const struct gpu *gpu, cu_stream stream)
{
    return error_set(TUTTI_ERR_INVALID,
            "rank %d: stream %p is being captured in a CUDA graph, and tutti's "
            "operations cannot be part of one: they are issued by another thread when "
            "all ranks are there; submit and wait outside of the capture",
            gpu->rank, (void *)stream);
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

/* The context is current. */
static tutti_status look_at_stream(struct gpu *gpu, cu_stream stream)
{
    cu_capture_status capture = CU_CAPTURE_NONE;
    cu_context context = gpu->context;
    cu_result result;
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
    result = gpu->cuda->stream_is_capturing(stream, &capture);
    if (result == CU_ERROR_CAPTURE_IMPLICIT) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d: the legacy default stream cannot be used while another "
                "stream is captured in a CUDA graph: pass the stream that the tensors "
                "are of in tutti_options.stream",
                gpu->rank);
    }
    if (is_capture_error(result) || capture != CU_CAPTURE_NONE) {
        return refuse_capture(gpu, stream);
    }
    return check_caller(gpu, stream, result, "look at the caller's stream");
}

/* The context is current. */
static tutti_status mark_caller(
        struct gpu *gpu, cu_stream stream, struct device_mark **made)
{
    struct device_mark *mark = NULL;
    tutti_status status = look_at_stream(gpu, stream);

    if (status == TUTTI_OK) {
        status = obtain(gpu, &mark);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = check_caller(gpu, stream, record(gpu, mark, stream),
            "record an event on the caller's stream");
    if (status != TUTTI_OK) {
        gpu_mark_release(gpu, mark);
        return status;
    }
    *made = mark;
    return TUTTI_OK;
}

tutti_status gpu_mark_caller(
        struct gpu *gpu, cu_stream stream, struct device_mark **mark)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = mark_caller(gpu, stream, mark);
        gpu_leave(gpu);
    }
    return status;
}

tutti_status gpu_follow_caller(
        struct gpu *gpu, cu_stream stream, struct device_mark *mark)
{
    tutti_status status = gpu_enter(gpu);

    if (status != TUTTI_OK) {
        return status;
    }
    status = look_at_stream(gpu, stream);
    if (status == TUTTI_OK) {
        status = check_caller(gpu, stream, follow(gpu, stream, mark),
                "make the caller's stream wait for an event");
    }
    gpu_leave(gpu);
    return status;
}
