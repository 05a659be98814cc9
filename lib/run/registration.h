/*
 * Registered tensors. Calls with the context's lock held.
 */
#ifndef TUTTI_RUN_REGISTRATION_H
#define TUTTI_RUN_REGISTRATION_H

#include <tutti/tutti.h>

#include "run/submit.h"

struct tutti;

/**
 * Registers what check_call() has passed. From then on it is submitted
 * without a lock (run/persistent.h).
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no such set or root, not a member), DUPLICATE,
 *         NO_MEMORY; the handle is set only on success
 */
tutti_status registration_add(
        struct tutti *t, const struct submission *submission, tutti_tensor *handle);
/** @return TUTTI_OK, TUTTI_ERR_INVALID (unknown), TUTTI_ERR_DUPLICATE (in flight) */
tutti_status registration_remove(struct tutti *t, tutti_tensor handle);

#endif
