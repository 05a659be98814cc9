/*
 * Memory of the application that lies in the arena in place: its pages are those of a block
 * of the arena, at their old addresses. What it has of its first and last page is not
 * whole pages, and stays where it is; a place in the block stands for it while a batch is
 * in flight, so that peers find a tensor in one piece.
 *
 *     the application    ..[head|  page  |  page  |tail]..
 *                           :copy    :same memory:  :copy
 *     the block            [head|  page  |  page  |tail]
 */
#ifndef TUTTI_OPS_SHM_ALIAS_H
#define TUTTI_OPS_SHM_ALIAS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/shm/arena.h"

/** A range of the application's memory. */
struct alias {
    uintptr_t begin, end; /* what the application named */
    uintptr_t first, last; /* its whole pages; equal, and the end: there are none */
    char *block; /* in the arena; owned */
    uint64_t offset; /* of begin in the reservation */
};

/** Those of a rank. Zeroed: there is no arena, and there are none. */
struct aliases {
    struct arena *arena; /* borrowed */
    pthread_mutex_t changing; /* one is made or removed at a time */
    pthread_mutex_t lock; /* guards what follows; with `changing` to write `list` */
    struct alias *list; /* by address, apart from each other; owned */
    size_t capacity;
    _Atomic size_t count;
};

void aliases_init(struct aliases *aliases, struct arena *arena);
/** Makes what is left the application's own again, where there is memory for that. */
void aliases_fini(struct aliases *aliases);

/** tutti_share(), of memory that is neither an alias nor of the arena. Any thread. */
tutti_status aliases_add(struct aliases *aliases, void *memory, size_t bytes);
/** tutti_unshare(), of memory that no batch in flight uses. Any thread. */
tutti_status aliases_remove(struct aliases *aliases, const void *memory);

/**
 * The offset in the reservation of memory that lies in one alias; UINT64_MAX: it does not.
 * @param is_read  peers will read it: copies what is not whole pages into the block
 */
uint64_t aliases_begin(
        struct aliases *aliases, const void *memory, size_t bytes, bool is_read);
/** The batch has written it: copies what is not whole pages out of the block. */
void aliases_end(struct aliases *aliases, const void *memory, size_t bytes);

/* Below: for alias.c, of an alias that is not in the table (alias_pages.c). */

/** Whether its pages are memory that can be shared. */
tutti_status alias_check_pages(const struct alias *alias);
/** Makes its pages those of its block, with their contents. */
tutti_status alias_map_pages(const struct aliases *aliases, const struct alias *alias);
/**
 * Makes its pages the application's own. TUTTI_ERR_INVALID: some are not there any more; the
 * others stay as they are, and the block must not be used again.
 */
tutti_status alias_unmap_pages(
        const struct aliases *aliases, const struct alias *alias);
tutti_status alias_no_memory(size_t bytes);

static inline char *alias_pointer(uintptr_t address)
{
    /* An address of the application has no pointer here to start from. */
    return (char *)address; /* NOLINT(performance-no-int-to-ptr) */
}

/** Where an address of an alias is in its block. */
static inline char *alias_in_block(
        const struct aliases *aliases, const struct alias *alias, uintptr_t address)
{
    return (char *)aliases->arena->reservation->base + alias->offset +
            (address - alias->begin);
}

#endif
