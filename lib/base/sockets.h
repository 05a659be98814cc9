/*
 * The TCP connections of this process, whoever made them: a thread sleeps until bytes come
 * on one, or there is room again on one that was full. So a rank that waits for another host
 * need not poll an MPI that talks over TCP. What comes another way is not heard.
 */
#ifndef TUTTI_BASE_SOCKETS_H
#define TUTTI_BASE_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/doorbell.h"

/** Zeroed is valid: not opened. Any thread. */
struct sockets {
    _Atomic bool is_taken; /* a thread sleeps here, and has the rest */
    bool is_open;
    bool has_failed; /* it cannot be opened, and is not tried again */
    int epoll; /* the connections, edge-triggered */
    int event; /* what a ring of the doorbell writes to */
    int64_t looked_ns; /* for connections */
};

/** Longest sleep of a thread that hears nothing, because another one sleeps there. */
#define SOCKETS_DEAF_NS INT64_C(1000000)

/**
 * As doorbell_sleep(), and until something happens on a connection. What has happened since
 * the last sleep counts. Of two threads the second only hears the bell, and sleeps no longer
 * than SOCKETS_DEAF_NS.
 * @return true: it was rung, or something has happened; false: the time is over
 */
bool sockets_sleep(struct sockets *sockets, struct doorbell *bell, uint32_t seen,
        int64_t timeout_ns);
/** Also of one that was never opened. Nobody rings any more. */
void sockets_close(struct sockets *sockets);

#endif
