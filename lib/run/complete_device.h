/*
 * Completion of operations on device memory: their names are free when their commands are
 * on streams, and they are done when an event has passed (device/inflight.h).
 */
#ifndef TUTTI_RUN_COMPLETE_DEVICE_H
#define TUTTI_RUN_COMPLETE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "base/error.h"

struct device_event;
struct tutti;
struct operation;

/**
 * Engine: the commands of operations (a list over next, RUNNING) are on streams: their names are
 * free, those who wait for a stream are woken, and they end when `event` has passed, whose
 * reference is taken. Without an event they end now.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY (the event alone is gone)
 */
tutti_status complete_issue(
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
 * Any thread: references to the events of requests that are issued; NULL where one is not, or
 * already done. Entries of operations may be NULL.
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
