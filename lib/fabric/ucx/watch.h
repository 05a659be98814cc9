/*
 * What looks while a rank sleeps: a thread that rings the doorbell when UCX has messages, and
 * notices when a process of this host has ended.
 */
#ifndef TUTTI_FABRIC_UCX_WATCH_H
#define TUTTI_FABRIC_UCX_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tutti/tutti.h>

#include "base/doorbell.h"

/** A process of this host. */
struct watched {
    _Atomic bool has_ended;
};

struct watch {
    int epoll; /* what the thread waits for; owned */
    int stop; /* an event that ends it; owned */
    int messages; /* UCX's descriptor; borrowed */
    pthread_t thread;
    _Atomic(struct doorbell *) bell; /* NULL: nobody sleeps */
    _Atomic int ends; /* processes that have ended */
};

/**
 * Starts the thread.
 * @param messages  is readable when there are some
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM: nothing is owed
 */
TUTTI_MUST_USE tutti_status watch_init(struct watch *watch, int messages);
void watch_fini(struct watch *watch);

/** From now on it rings this one. */
void watch_listen(struct watch *watch, struct doorbell *bell);
/** Rings it, from any thread; nothing before watch_listen(). */
void watch_ring(struct watch *watch);
/** It rings once, when the descriptor becomes readable. False: it is so now, or cannot. */
bool watch_arm(struct watch *watch);
/**
 * When a process of this host ends, notes it, counts in `ends`, and rings.
 * @param process  stays until watch_fini()
 * @return a descriptor that the caller closes; -1: why is in errno
 */
int watch_process(struct watch *watch, int pid, struct watched *process);
/** Whether the system can do that at all. */
bool watch_can_watch(void);

#endif
