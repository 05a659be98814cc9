/*
 * The loop of a process of tuttirun: it waits until a descriptor is ready or a time has
 * come. Each descriptor has a watch: its owner is called when it is ready, or when a time of its own
 * has come, or looks at what it was ready for. One thread.
 */
#ifndef TUTTI_LAUNCHER_SESSION_LOOP_H
#define TUTTI_LAUNCHER_SESSION_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum {
    LOOP_READY_MAX = 64 /* watches that one wait finds ready, at most */
};

/** A descriptor that is waited for; part of its owner. Zeroed, nothing is. */
struct loop_watch {
    /* NULL: the owner looks at `ready`. 0 is handed over when loop_set_due()'s time has come. */
    void (*call)(void *context, unsigned ready);
    void *context; /* handed to it                                  */
    int fd; /* that is watched, while `events` is not 0       */
    unsigned events; /* EPOLLIN, EPOLLOUT; 0: none                  */
    unsigned ready; /* by the last wait; also EPOLLHUP and EPOLLERR */
    int64_t due; /* when it is called; 0: not by time              */
    struct loop_watch *before, *after; /* that are due, by time               */
};

struct loop {
    int epoll; /* -1: none                                      */
    struct loop_watch *file; /* what epoll refuses: always ready; NULL: none    */
    struct epoll_event ready[LOOP_READY_MAX]; /* by the last wait           */
    int count, next; /* of them; the next that is to be called         */
    struct loop_watch *first, *last; /* of those that are due at some time  */
};

/** @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status loop_init(struct loop *loop);
/** Also of one that is not there (epoll -1). The owners' watches watch nothing then. */
void loop_fini(struct loop *loop);

/**
 * Watches a descriptor for these events from now on, and for no others; 0: for none,
 * which it has to be before it is closed, and not by time either. `loop` NULL: nothing waits.
 * @return false when it cannot
 */
bool loop_set(struct loop *loop, struct loop_watch *watch, int fd, unsigned events);
/**
 * Has it called once, at that time (clock_ns()), after all that is ready by then; 0: not any more.
 */
void loop_set_due(struct loop *loop, struct loop_watch *watch, int64_t due_ns);
/** Closes one that is not watched, if there is one; -1 in its place. */
static inline void fd_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}
/** Watches it no longer and closes it; -1 in its place. */
void loop_close(struct loop *loop, struct loop_watch *watch, int *fd);

/**
 * Waits until something is ready, or until that time (clock_ns(); INT64_MAX: for ever).
 * @return how many are ready
 */
int loop_wait(struct loop *loop, int64_t until_ns);
/** The next that is ready, in the order in which that came, then those that are due; NULL: no more. */
struct loop_watch *loop_next(struct loop *loop);
/** Waits, and calls all that are ready. @return how many were */
int loop_turn(struct loop *loop, int64_t until_ns);
/**
 * Allows so many descriptors, where they are not; what is started later inherits that.
 * @return how many may be allowed
 */
uint64_t loop_raise_limit(uint64_t need);
/** What poll() and epoll_wait() want to know: milliseconds until then, -1: for ever. */
int loop_ms_until(int64_t until_ns);

#endif
