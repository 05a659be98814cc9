/*
 * What the public calls share.
 */
#ifndef TUTTI_API_CALL_H
#define TUTTI_API_CALL_H

#include <tutti/tutti.h>

#include "core/submit.h"

/** TUTTI_ERR_INVALID when the context is NULL. */
tutti_status call_check_context(const tutti *t);

/** Waits and consumes; tutti_wait() without the checks of the calling thread. */
tutti_status call_wait(tutti *t, tutti_request *request, int64_t timeout_ns);

/** Checks and queues; a refusal is remembered by the thread's open group. */
tutti_status call_submit(
        tutti *t, const struct submission *submission, tutti_request *request);

/** Submits and waits. */
tutti_status call_blocking(tutti *t, const struct submission *submission);

#endif
