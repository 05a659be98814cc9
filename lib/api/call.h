/*
 * What the public calls share.
 */
#ifndef TUTTI_API_CALL_H
#define TUTTI_API_CALL_H

#include <tutti/tutti.h>

#include "base/shared.h"
#include "run/submit.h"

/** TUTTI_ERR_INVALID when the context is NULL. */
tutti_status call_check_context(const tutti *t);

/**
 * Checks a list of ranks of a world: none out of range, none twice.
 * @param what  what is to be made of them, for the message
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY
 */
tutti_status call_check_ranks(const char *what, const int *ranks, int n, int size)
        TUTTI_SHARED(call_check_ranks);

/** Waits and consumes; tutti_wait() without the checks of the calling thread. */
tutti_status call_wait(tutti *t, tutti_request *request, int64_t timeout_ns);

/**
 * Adds the caller's options (NULL: the defaults) to what a call asks for. Scales mean nothing
 * where nothing is reduced, and are set to 1 so that ranks do not differ in them.
 */
tutti_status call_take_options(
        const tutti_options *options, struct submission *submission);

#endif
