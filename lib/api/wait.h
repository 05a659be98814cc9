/*
 * Waiting for requests; what tutti_wait*() and tutti_wait_stream*() have in common.
 */
#ifndef TUTTI_API_WAIT_H
#define TUTTI_API_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/error.h"

struct operation;

/** Requests that are waited for together. */
#define WAIT_CHUNK 64

/** Some requests, and how many of them, in order, are known to be over. */
struct wait {
    const tutti *t; /* whose they are                                             */
    struct operation
            *operations[WAIT_CHUNK]; /* NULL: nothing to wait for                  */
    tutti_request requests[WAIT_CHUNK];
    size_t count;
    size_t over;
    bool issued; /* of device memory it is enough that they are issued, or that the
                    context has failed and they will not be                   */
};

/** TUTTI_OK if this thread may wait in this context; `requests` is the caller's pointer. */
tutti_status wait_check(tutti *t, const void *requests);

/** Looks up at most WAIT_CHUNK operations; the first unknown request is reported. */
tutti_status wait_prepare(
        tutti *t, struct wait *wait, const tutti_request *requests, size_t count);

/** Waits, between driver_enter() and driver_leave(). @param deadline_ns  of clock_ns() */
void wait_until(tutti *t, struct wait *wait, int64_t deadline_ns);

/** When a wait of so long ends that begins now. */
int64_t wait_deadline(int64_t timeout_ns);

/**
 * Consumes requests that are over; statuses may be NULL.
 * @param[in,out] first  the first error of all, time-outs only if there is no other
 */
void wait_consume(tutti *t, size_t count, tutti_request *requests,
        tutti_status *statuses, struct error *first);

/** What became of one of them, with the thread's last error. */
void wait_note(struct error *first, tutti_status status);

#endif
