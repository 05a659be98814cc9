/*
 * Submission: from a public call to a queued work. Any thread.
 */
#ifndef TUTTI_CORE_SUBMIT_H
#define TUTTI_CORE_SUBMIT_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "core/meta.h"
#include "core/rows.h"

struct device_mark;
struct tutti;
struct work;

/** What a public call asks for, before it is checked. */
struct submission {
    int collective; /* tutti_collective or meta_collective                  */
    const char *name;
    tutti_process_set set;
    struct meta meta; /* dims: the shape, borrowed during the call (internal
                           collectives: until done); what rows_describe() fills is
                           not looked at                                        */
    struct rows rows; /* of collectives on rows; lists borrowed during the call */
    const void *input;
    void *output;
    tutti_callback callback;
    void *user;
    int priority;
    tutti_stream stream; /* of device memory                                     */
    struct device_mark *after; /* what is on it, a reference; see placement_find()   */
};

/** Options as the caller knew them, over the defaults. Refuses a size of 0. */
tutti_status submit_options(const tutti_options *given, tutti_options *options);

/**
 * Queues a submission that check_call() has passed, or puts it into the thread's open group. On failure
 * nothing has changed, but that an open group remembers the refusal.
 * @param[out] request  set unless there is a callback
 */
tutti_status submit_queue(
        struct tutti *t, const struct submission *submission, tutti_request *request);

/**
 * Queues a registered tensor. Takes no lock, allocates nothing and never waits for another
 * thread, unless a thread has a group open, a request of this tensor is still to be
 * consumed, or the submission is to be refused. Buffers on the device take two calls of its
 * driver, which take what they take.
 */
tutti_status submit_registered(struct tutti *t, tutti_tensor tensor,
        const struct submission *buffers, tutti_request *request);

/** Room for the numbers and parts of a submission; false when out of memory. */
bool submit_reserve(struct work *work, const struct submission *submission);
/** Lock held: takes back a work of the pool that was not queued. */
void submit_withdraw(struct tutti *t, struct work *work);

#endif
