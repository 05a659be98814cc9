/*
 * The failed state of a context: entered once, with the first cause; everything pending
 * and everything later ends with it.
 */
#ifndef TUTTI_CORE_FAILURE_H
#define TUTTI_CORE_FAILURE_H

#include <stdbool.h>

#include "base/error.h"

struct tutti;

/**
 * Marks the context failed. Any thread. Only the first cause counts.
 * @param rank  world rank that found the cause
 */
void failure_set(struct tutti *t, int rank, const char *text);
/**
 * Engine: as failure_set(), with the calling thread's last error, of this status, found by
 * this rank. What looks like the loss of a rank waits a moment for tuttirun, which knows how
 * it ended.
 */
void failure_set_last(struct tutti *t, tutti_status status);
/**
 * What a call returns that has got `status` from the device: a device that is lost fails the
 * context here and now, for the engine may have nothing that makes it look. Any thread, with
 * no lock held and no lease.
 * @return `status`, or TUTTI_ERR_CONTEXT_FAILED with the first cause as the last error
 */
tutti_status failure_of_device(struct tutti *t, tutti_status status);
/** Engine: fails the context when tuttirun has said that the job has failed. One load. */
void failure_look(struct tutti *t);
/**
 * Engine: tells the other ranks (unless one of them told us), gives up what is launched
 * and ends all works. Does nothing while the context lives, and cheap afterwards.
 */
void failure_enforce(struct tutti *t);
/**
 * Any thread: true while the context has failed and works are left whose memory the device,
 * or another rank, may still touch; they end when it does not. That may take as long as what
 * the program has on its own streams: who need not have the memory back does not wait for it.
 * `done_bell` rings when it becomes true.
 */
bool failure_lingers(const struct tutti *t);
/** Engine: another rank says the job has failed. */
void failure_received(struct tutti *t, int from, const void *bytes, size_t len);

#endif
