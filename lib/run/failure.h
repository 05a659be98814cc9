/*
 * The failed state of a context: entered once, with the first cause; everything pending
 * and everything later ends with it.
 */
#ifndef TUTTI_RUN_FAILURE_H
#define TUTTI_RUN_FAILURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/failure_page.h"

struct process_set;
struct tutti;

/** Whether a context has failed, and why. */
struct failure {
    /* atomic */
    _Atomic uint32_t is_set; /* 1: `error` is set                                     */
    _Atomic uint32_t is_told; /* 1: the others know of it                             */
    _Atomic uint32_t lingers; /* 1: see failure_lingers(); written by the engine      */

    /* lock */
    struct error error; /* first cause; status OK while the context lives             */
    char suspicion
            [FAILURE_PAGE_SUSPICION_MAX]; /* by tuttirun, of who is not heard; ""     */

    struct failure_page
            page; /* where tuttirun says why the job failed; zeroed: nowhere  */
    uint32_t suspicions; /* of `page` that were seen; engine                        */
};

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
 * no lock held and no persistent request.
 * @return `status`, or TUTTI_ERR_CONTEXT_FAILED with the first cause as the last error
 */
tutti_status failure_of_device(struct tutti *t, tutti_status status);
/**
 * Engine: some members of this set have not submitted what this rank waits for within
 * stall_fail_s; failure_set_last() follows. tuttirun, which sees all ranks end, finds who.
 */
void failure_note_stall(struct tutti *t, const struct process_set *set);
/** Engine: fails the context when tuttirun has said that the job has failed. One load. */
void failure_look(struct tutti *t);
/**
 * Engine: notes in t->failure.suspicion whom tuttirun suspects, and logs that. One load. It fails
 * nothing: what tells of a wait says it.
 */
void failure_suspect(struct tutti *t);
/**
 * Any thread: true while the context has failed and operations are left whose memory the device,
 * or another rank, may still touch; they end when it does not. That may take as long as what
 * the program has on its own streams: who need not have the memory back does not wait for it.
 * `done_bell` rings when it becomes true.
 */
bool failure_lingers(const struct tutti *t);
/**
 * Engine (failure_cleanup.c): tells the other ranks (unless one of them told us), gives up what
 * is launched and ends all operations. Once the context has failed, in each pass; cheap.
 */
void failure_enforce(struct tutti *t);
/** Engine: another rank says the job has failed. */
void failure_received(struct tutti *t, int from, const void *bytes, size_t len);

#endif
