/*
 * Submission: from a public call to a queued operation. Any thread.
 */
#ifndef TUTTI_RUN_SUBMIT_H
#define TUTTI_RUN_SUBMIT_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "agree/meta.h"
#include "run/rows.h"

struct device_event;
struct tutti;
struct operation;

/** What a public call asks for, before it is checked. */
struct submission {
    int collective; /* tutti_collective or meta_collective                  */
    const char *name;
    tutti_process_set set;
    struct meta meta; /* dims: the shape, borrowed during the call (internal
                           collectives: until done); what rows_describe() fills is
                           not looked at                                        */
    uint64_t step; /* see meta_step(); that of `meta` is not looked at      */
    struct rows rows; /* of collectives on rows; lists borrowed during the call */
    int peer; /* of a message: the other rank, in the set               */
    bool sends; /* of a message: to it; else from it                      */
    const void *input;
    void *output;
    tutti_callback callback;
    void *user;
    int priority;
    tutti_stream stream; /* of device memory                                     */
    struct device_event *after; /* what is on it, a reference; see buffers_place()   */
};

/**
 * Makes *options, which may be NULL, those that hold: the caller's, the defaults, or, in `older`,
 * those of a caller who knew fewer over the defaults.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a size of 0)
 */
tutti_status submit_options(const tutti_options **options, tutti_options *older);

/**
 * Queues a submission that check_call() has passed, or puts it into the thread's open group.
 * On failure nothing has changed. Fills in where the buffers lie, so it is used once.
 * @param[out] request  set unless there is a callback
 */
tutti_status submit_queue(
        struct tutti *t, struct submission *submission, tutti_request *request);

/**
 * Queues a registered tensor. Takes no lock, allocates nothing and never waits for another
 * thread, unless a thread has a group open, a request of this tensor is still to be
 * consumed, or the submission is to be refused. Buffers on the device take two calls of its
 * driver, which take what they take.
 * @param submission  buffers, step, callback and user; the rest is filled in
 */
tutti_status submit_registered(struct tutti *t, tutti_tensor tensor,
        struct submission *submission, tutti_request *request);

/**
 * Fills in what all submissions of a registered tensor have in common, and makes room for
 * the rest; false when out of memory.
 */
bool submit_prepare(struct operation *operation, const struct submission *submission);
/** Sets the error of having no memory for one. */
tutti_status submit_no_memory(const struct submission *submission);

#endif
