/*
 * Batches of device memory between the moment in which their commands are on streams and
 * the one in which the device has carried them out: a queue of events, oldest first.
 *
 * Each is an event, and the operations that are done when it has passed. One whose operations
 * have all gone to a stream (tutti_wait_stream()) stays, because somebody has to notice that
 * the device never gets there.
 *
 * The queue belongs to the engine; run/complete_device.h decides which operations are in it.
 */
#ifndef TUTTI_DEVICE_INFLIGHT_H
#define TUTTI_DEVICE_INFLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/device.h"

struct operation;

/** What is issued together. */
struct inflight {
    struct device_event *event; /* a reference                                      */
    struct operation
            *operations; /* of run/complete_device.c; context's lock              */
    struct inflight *next; /* a later one, or a spare one                        */
};

/** All of a context. Zeroed is valid. */
struct device_inflight {
    struct inflight *oldest, *newest; /* owned; engine                            */
    struct inflight *spare; /* owned; engine                                      */
    int64_t patience_ns; /* engine: after a failure, until when events may pass  */
    _Atomic uint32_t count; /* of those that have not passed; written by the engine */
};

/** Any thread: true while something is issued that has not passed. */
static inline bool inflight_is_pending(const struct device_inflight *queue)
{
    /* Acquire: see context_has_work(). */
    return atomic_load_explicit(&queue->count, memory_order_acquire) != 0;
}

/** A new newest one; takes the event's reference, also when it is NULL: out of memory. */
struct inflight *inflight_add(struct device_inflight *queue,
        const struct device *device, struct device_event *event);
/** Removes the oldest, whose operations have ended. */
void inflight_remove_oldest(struct device_inflight *queue, const struct device *device);
/**
 * After the context failed: true while an event has not passed and is waited for, which is
 * for a limited time in all.
 */
bool inflight_wait_for(struct device_inflight *queue, const struct device *device,
        struct device_event *event);
/** Frees everything; the context ends. */
void inflight_fini(struct device_inflight *queue, const struct device *device);

#endif
