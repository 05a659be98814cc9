/*
 * Events. An event is its last record: a place in a stream, and the clock of that place.
 * Waiting takes the record that is there at the call; without one there is nothing to wait
 * for, and the event is complete.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "test/gpusim/state.h"

enum {
    EVENT_UNTIMED = 2,
    EVENT_FLAGS_MAX = 7
};

/* A record; shared by the event and the operation that passes it. */
struct record {
    atomic_int uses;
    struct stream *stream;
    uint64_t sequence;
    struct clock clock;
    struct timespec passed; /* written when the operation runs */
};

struct event {
    struct context *context;
    uint64_t generation; /* of the context */
    unsigned flags;
    struct record *record; /* NULL: never recorded, or captured */
    struct capture *captured; /* the record was put on a captured stream */
    size_t place; /* and there */
};

static void record_drop(void *argument)
{
    struct record *record = argument;

    if (record != NULL && atomic_fetch_sub(&record->uses, 1) == 1) {
        clock_fini(&record->clock);
        free(record);
    }
}

static int record_body(void *argument)
{
    struct record *record = argument;

    (void)clock_gettime(CLOCK_MONOTONIC, &record->passed);
    return CUDA_SUCCESS;
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
        made->flags = flags;
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
            record_drop(found->record);
            free(found);
            handle_drop(HANDLE_EVENT, event);
        }
    }
    return sim_leave(result);
}

static int event_record(struct event *event, struct stream *stream)
{
    struct record *record;
    struct op *op;
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
        record_drop(event->record);
        event->record = NULL;
        event->place = capture_place(stream);
        return CUDA_SUCCESS;
    }
    record = calloc(1, sizeof *record);
    atomic_init(&record->uses, 2);
    op = op_new("cuEventRecord", OP_EMPTY);
    op->body = record_body;
    op->dispose = record_drop;
    op->argument = record;
    result = stream_submit(stream, op);
    if (result != CUDA_SUCCESS) {
        record_drop(record);
        return result;
    }
    record->stream = stream;
    record->sequence = stream->submitted;
    record->clock = clock_copy(&stream->clock);
    record_drop(event->record);
    event->record = record;
    return CUDA_SUCCESS;
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

static bool record_passed(const struct record *record)
{
    return record == NULL || record->stream->done >= record->sequence;
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
    if (result == CUDA_SUCCESS && !record_passed(found->record)) {
        result = CUDA_NOT_READY;
    }
    if (result == CUDA_SUCCESS && found->record != NULL) {
        clock_join(&host_self()->clock, &found->record->clock);
    }
    return sim_leave(result);
}

/* The event may be recorded again, or destroyed, while this waits. */
static int record_wait(struct record *record)
{
    atomic_fetch_add(&record->uses, 1);
    stream_wait(record->stream, record->sequence);
    clock_join(&host_self()->clock, &record->clock);
    record_drop(record);
    return CUDA_SUCCESS;
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
    if (result == CUDA_SUCCESS && found->record != NULL) {
        struct context *context = found->context;
        uint64_t generation = found->generation;

        result = record_wait(found->record);
        result = context->generation != generation ? CUDA_CONTEXT_IS_DESTROYED
                                                   : context->error;
    }
    return sim_leave(result);
}

static int event_time(const struct event *event, struct timespec *time)
{
    if ((event->flags & EVENT_UNTIMED) != 0 || event->record == NULL) {
        return CUDA_INVALID_HANDLE;
    }
    *time = event->record->passed;
    return record_passed(event->record) ? CUDA_SUCCESS : CUDA_NOT_READY;
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    int result = sim_enter("cuEventElapsedTime", NEEDS_CONTEXT);
    struct event *first = NULL, *second = NULL;
    struct timespec from, to;

    if (result == CUDA_SUCCESS) {
        result = event_find(start, &first);
    }
    if (result == CUDA_SUCCESS) {
        result = event_find(end, &second);
    }
    if (result == CUDA_SUCCESS) {
        result = event_time(first, &from);
    }
    if (result == CUDA_SUCCESS) {
        result = event_time(second, &to);
    }
    if (result == CUDA_SUCCESS) {
        *milliseconds = (float)((double)(to.tv_sec - from.tv_sec) * 1e3 +
                (double)(to.tv_nsec - from.tv_nsec) / 1e6);
    }
    return sim_leave(result);
}

static int event_wait(struct stream *stream, const struct event *event)
{
    struct op *op;

    if (event->captured != NULL) {
        return capture_follow(stream, event->captured, event->place);
    }
    if (stream->capture != NULL && event->record != NULL) {
        capture_spoil(stream->capture);
        return CUDA_STREAM_CAPTURE_ISOLATION;
    }
    if (event->record == NULL) {
        return CUDA_SUCCESS;
    }
    clock_join(&stream->clock, &event->record->clock);
    op = op_new("cuStreamWaitEvent", OP_EMPTY);
    op_depend(op, event->record->stream, event->record->sequence);
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
