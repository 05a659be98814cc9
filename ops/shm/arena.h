/*
 * Allocates in a rank's own reservation, so that the others can address what it gives.
 *
 * Blocks never move. Their pages are committed before they are handed out, and not where
 * memory would run out (base/headroom.h): a full cgroup or /dev/shm is an error of the
 * allocation and not a signal in the middle of a sum. Some of what is freed stays committed
 * for the next allocation.
 *
 * The lists of blocks are private memory, where no peer can damage them.
 */
#ifndef TUTTI_OPS_SHM_ARENA_H
#define TUTTI_OPS_SHM_ARENA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/headroom.h"
#include "base/map.h"
#include "ops/shm/reservation.h"

struct arena_block;

struct arena {
    const struct reservation *reservation; /* borrowed */
    struct headroom headroom; /* for what is committed */
    pthread_mutex_t lock; /* guards what follows */
    struct arena_block *blocks; /* all, free or not, by offset; owned */
    struct map used; /* those in use by address */
    uint64_t *committed; /* a bit for each granule; owned */
    size_t spare_bytes; /* committed, but in no block in use, about */
};

/**
 * Manages a reservation from an offset on.
 * @param sharers  processes of the node that have one, this one counted
 * @return false when out of memory
 */
bool arena_init(struct arena *arena, const struct reservation *reservation,
        size_t first, int sharers);
void arena_fini(struct arena *arena);
/** Commits the first bytes of a new one, which stay so. @return as arena_alloc() */
bool arena_commit(struct arena *arena, size_t bytes);

/**
 * Zeroed memory on a boundary of 64 bytes, or NULL: errno is ENOSPC where the host has some.
 * Any thread.
 */
void *arena_alloc(struct arena *arena, size_t bytes);
/**
 * As arena_alloc(), from a page on that can be mapped at another page, too: if it is large,
 * their distance is a multiple of a huge page.
 */
void *arena_alloc_pages(struct arena *arena, size_t bytes, uintptr_t page);
/** Frees what either gave; NULL is allowed. Any thread. @return false: it is none of it */
bool arena_free(struct arena *arena, void *memory);

#endif
