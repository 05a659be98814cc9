/*
 * How much memory this process may still take before the kernel would kill for it: what
 * the machine has available, and what the limit of each memory cgroup on the way to the
 * root leaves, caches of files counted as free and swap not counted.
 *
 * The kernel does not refuse memory that is committed page by page: at the limit it kills a
 * process. So a rank asks here first. Ranks that ask at the same time see the same free
 * memory. Therefore each takes at most a step at a time, and is told yes only while a step is
 * left for every rank that shares the memory. What other programs take is not covered.
 */
#ifndef TUTTI_BASE_HEADROOM_H
#define TUTTI_BASE_HEADROOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What there is for this process. */
struct memory_room {
    uint64_t total; /* the smallest limit; UINT64_MAX: not known        */
    uint64_t left; /* before the first limit is reached; likewise      */
};

/** Looks at the machine and the cgroups. @param root "", or a test's folder */
struct memory_room memory_room(const char *root);

/** A process that asks. */
struct headroom {
    pthread_mutex_t lock; /* guards what follows              */
    size_t step; /* that each takes at most at a time */
    size_t reserve; /* a step for all that share        */
    size_t credit; /* may be taken without another look */
    int64_t looked_ns; /* when it was given                */
};

/** @param sharers  processes that may take memory at the same time, this one counted */
void headroom_init(struct headroom *room, int sharers);
void headroom_fini(struct headroom *room);
/**
 * True when this many bytes are left; else errno is ENOMEM. More than a step is only looked
 * for: take it in steps and ask for each. Any thread.
 */
bool headroom_take(struct headroom *room, size_t bytes);

#endif
