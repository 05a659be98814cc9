/*
 * Completion of operations on device memory: their names are free when their commands are
 * on streams, and they are done when an event has passed.
 *
 * In between they are in a queue of events, oldest first. An entry whose operations have all
 * gone to a stream (tutti_wait_stream()) stays, because somebody has to notice that the device
 * never gets there.
 */
#ifndef TUTTI_RUN_COMPLETE_DEVICE_H
#define TUTTI_RUN_COMPLETE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/error.h"

struct device_event;
struct tutti;
struct operation;

/** What is issued together. */
struct inflight {
    struct device_event *event; /* a reference                                       */
    struct operation *operations; /* done when it has passed; context's lock         */
    struct inflight *next; /* a later one, or a spare one                            */
};

/** What the device has still to do. Zeroed is valid. */
struct device_inflight {
    struct inflight *oldest, *newest; /* owned; engine                               */
    struct inflight *spare; /* owned; engine                                         */
    int64_t patience_ns; /* engine: after a failure, until when events may pass      */
    _Atomic uint32_t count; /* of those that have not passed; written by the engine  */
};

/** Any thread: true while something is issued that has not passed. */
static inline bool complete_is_pending(const struct device_inflight *inflight)
{
    /* Acquire: see context_has_work(). */
    return atomic_load_explicit(&inflight->count, memory_order_acquire) != 0;
}

/**
 * Engine: the commands of operations (a list over next, RUNNING) are on streams: their names are
 * free, those who wait for a stream are woken, and they end when `event` has passed, whose
 * reference is taken.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY (the event alone is gone)
 */
tutti_status complete_issue(
        struct tutti *t, struct operation *operations, struct device_event *event);

/**
 * Engine: operations (likewise) are in a CUDA graph, up to `event`, whose reference is taken: they
 * are done.
 */
void complete_captured(
        struct tutti *t, struct operation *operations, struct device_event *event);

/**
 * Engine: ends operations whose events have passed. Errors: the device is lost.
 * @param[in,out] moved  set when some have
 */
tutti_status complete_look(struct tutti *t, bool *moved);

/**
 * Engine, after the context failed and the backends have given up: ends all operations with
 * `error` once the device does not touch their memory any more. False: call again.
 */
bool complete_give_up(struct tutti *t, const struct error *error);

/**
 * Engine, after the context failed: true while an event has not passed and is waited for, which
 * is for a limited time in all.
 */
bool complete_awaits(struct tutti *t, struct device_event *event);

/** Frees the queue; the context ends. */
void complete_device_fini(struct tutti *t);

/**
 * Any thread: references to the events of requests that are issued, or done in a CUDA graph; NULL
 * where one is neither. Entries of operations may be NULL.
 */
void complete_events(struct tutti *t, struct operation *const *operations,
        const tutti_request *requests, struct device_event **events, size_t count);

/**
 * Any thread: a stream waits for the events of these requests, so those that are issued are
 * done. Entries without an event are left out.
 */
void complete_stream(struct tutti *t, struct operation *const *operations,
        const tutti_request *requests, struct device_event *const *events,
        size_t count);

#endif
