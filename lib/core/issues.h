/*
 * Works on device memory between the moment in which their commands are on streams and the
 * one in which the device has carried them out.
 *
 * An *issue* is a mark, and the works that are done when it has passed. The engine looks at
 * the oldest one in each turn, and ends its works then. A work whose request has gone to a
 * stream (tutti_wait_stream()) has left its issue by then; the issue stays, because somebody
 * has to notice that the device never gets there.
 *
 * Issues are the engine's. Which works are in them is guarded by the context's lock.
 */
#ifndef TUTTI_CORE_ISSUES_H
#define TUTTI_CORE_ISSUES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/error.h"

struct device_mark;
struct tutti;
struct work;

/** What is issued together. */
struct issue {
    struct device_mark *mark; /* a reference                                      */
    struct work *works; /* over next and before; lock                          */
    struct issue *next; /* a later one, or a spare one                         */
};

/** All of a context. Zeroed is valid. */
struct issues {
    struct issue *oldest, *newest; /* owned; engine                               */
    struct issue *spare; /* owned; engine                                       */
    int64_t patience_ns; /* engine: after a failure, until when marks may pass  */
    _Atomic uint32_t count; /* of those that have not passed; written by the engine */
    _Atomic uint64_t streamed; /* works that ended by going to a stream            */
    _Atomic uint64_t streamed_bytes; /* their payload                              */
};

/** Any thread: true while something is issued that has not passed. */
static inline bool issues_pending(const struct issues *issues)
{
    /* Acquire: see context_has_work(). */
    return atomic_load_explicit(&issues->count, memory_order_acquire) != 0;
}

/** Engine: an issue that is not in the list yet; NULL when out of memory. */
struct issue *issues_new(struct tutti *t, struct device_mark *mark);
/** Engine: the newest one from now on; its works are all in it. */
void issues_append(struct tutti *t, struct issue *issue);
/** Lock held: a work belongs to an issue, behind its others; or to none any more. */
void issue_join(struct issue *issue, struct work *work);
void issue_leave(struct work *work);

/**
 * Engine: ends works whose marks have passed. Errors: the device is lost.
 * @param[in,out] moved  set when some have
 */
tutti_status issues_look(struct tutti *t, bool *moved);

/**
 * Engine, after the context failed: true while a mark has not passed and is waited for,
 * which is for a limited time in all.
 */
bool issues_wait_for(struct tutti *t, struct device_mark *mark);

/**
 * Engine, after the context failed and the backends have given up: ends all works with
 * `error` once the device does not touch their memory any more. False: call again.
 */
bool issues_give_up(struct tutti *t, const struct error *error);

/**
 * Any thread: references to the marks of requests that are issued; NULL where one is not, or
 * already done. Entries of works may be NULL.
 */
void issues_marks(struct tutti *t, struct work *const *works,
        const tutti_request *requests, struct device_mark **marks, size_t count);

/**
 * Any thread: a stream waits for the marks of these requests, so those that are issued are
 * done. Entries without a mark are left out.
 */
void issues_stream(struct tutti *t, struct work *const *works,
        const tutti_request *requests, struct device_mark *const *marks, size_t count);

/** Frees everything; the context ends. */
void issues_fini(struct tutti *t);

#endif
