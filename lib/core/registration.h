/*
 * Registered tensors of a context. All calls with the context's lock held.
 */
#ifndef TUTTI_CORE_REGISTRATION_H
#define TUTTI_CORE_REGISTRATION_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "core/submit.h"

struct process_set;
struct tutti;

/**
 * Registers what check_call() has passed. Takes from then on no more than the lease
 * (core/lease.h) to submit.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no such set or root, not a member), DUPLICATE,
 *         NO_MEMORY; the handle is set only on success
 */
tutti_status registration_add(
        struct tutti *t, const struct submission *submission, tutti_tensor *handle);
/** @return TUTTI_OK, TUTTI_ERR_INVALID (unknown), TUTTI_ERR_DUPLICATE (in flight) */
tutti_status registration_remove(struct tutti *t, tutti_tensor handle);
/** Removes those of a set that goes; nothing of it is in flight. */
void registration_forget(struct tutti *t, const struct process_set *set);

/**
 * After any change of what submissions are refused for (`failure` and `closing` of the
 * context, `closing` and `joined` of a set): whoever submits by a handle has been queued
 * before, or comes to see the change.
 */
void registration_gate(struct tutti *t);
/** True when a registered tensor of the set is in flight; the set is closing or joined. */
bool registration_is_busy(const struct tutti *t, const struct process_set *set);

/** TUTTI_ERR_INVALID, with the sentence for a handle that is none. */
tutti_status registration_unknown(tutti_tensor handle);

#endif
