/*
 * Groups: submissions of one thread that are taken all or nothing.
 */
#ifndef TUTTI_RUN_GROUP_H
#define TUTTI_RUN_GROUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/error.h"

struct process_set;
struct tutti;
struct operation;

/** An open group. */
struct open_group {
    pthread_t thread; /* whose it is                                      */
    struct operation *newest,
            *oldest; /* members, over next; their names are held      */
    uint32_t count;
    uint32_t callbacks; /* of the members                                   */
    uint32_t agreed; /* of these, what all ranks agree on: all but messages */
    uint64_t hash; /* of these, in no order                            */
    const struct process_set *set; /* of these; NULL: there are none yet   */
    struct error error; /* first refusal of a member                        */
    struct open_group *next;
};

/** Guarded by the context's lock, but for `open`. */
struct groups {
    struct open_group *first; /* owned                                            */
    _Atomic uint32_t open; /* how many; lets others skip the search            */
};

/** Any thread: some thread has a group open. False: this one has none. */
static inline bool groups_are_open(const struct groups *groups)
{
    /* Relaxed: a group of this thread is seen, and others are none of its business. */
    return atomic_load_explicit(&groups->open, memory_order_relaxed) != 0;
}

/** tutti_group_begin(). */
tutti_status group_begin(struct tutti *t);
/** tutti_group_end(). */
tutti_status group_end(struct tutti *t);

/** The calling thread's open group, or NULL. Lock held. */
struct open_group *group_of_thread(struct groups *groups);
/** Takes an operation into a group instead of the queue. Lock held. */
void group_add(struct open_group *group, struct operation *operation);
/** Remembers the first refusal (the thread's last error). */
void group_refuse(struct tutti *t, tutti_status status);
/** True when the calling thread has a group open; mostly groups_are_open() answers it. */
bool group_is_open(struct tutti *t);

#endif
