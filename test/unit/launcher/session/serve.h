/*
 * Both sides of connections in one process: what is sent over loopback may take a while.
 */
#ifndef TUTTI_TEST_LAUNCHER_SESSION_SERVE_H
#define TUTTI_TEST_LAUNCHER_SESSION_SERVE_H

#include <poll.h>

#include "base/clock.h"
#include "launcher/session/loop.h"
#include "test/unit/launcher/cases.h"

/** Lets who is watched by `loop` work until something is so. */
#define SERVE_UNTIL(is_so) \
    do { \
        (void)loop_turn(&loop, clock_ns() + 1000000); \
    } while (!(is_so))

static inline bool is_readable(int fd)
{
    return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

/** Waits for bytes, or an end of these kinds. */
static inline void wait_for(int fd, short events)
{
    assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = events }, 1, -1), 1);
}

#endif
