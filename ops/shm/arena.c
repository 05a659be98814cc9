/*
 * First fit over a list of blocks in the order of their offsets; neighbours that are free
 * are joined. Memory is committed and discarded in granules.
 */
#include "ops/shm/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

#define ALIGNMENT ((size_t)64)
/* Unit of committing: few calls for large blocks, little waste for a small one. */
#define GRANULE ((size_t)64 << 10)
/* Blocks from here on are worth huge pages, and begin where one can. */
#define LARGE ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
/* Freed memory that stays committed. */
#define SPARE_BYTES_MAX ((size_t)256 << 20)

struct arena_block {
    struct arena_block *previous, *next; /* neighbours; NULL at the ends */
    size_t offset; /* in the reservation */
    size_t bytes;
    bool in_use;
};

static char *address_of(const struct arena *arena, size_t offset)
{
    return (char *)arena->reservation->base + offset;
}

static uint64_t address_hash(const void *memory)
{
    return hash_u64(0, (uint64_t)(uintptr_t)memory);
}

/* ---------------------------------------------------------------- commitment */

static bool is_committed(const struct arena *arena, size_t granule)
{
    return (arena->committed[granule / 64] >> granule % 64 & 1) != 0;
}

static void set_committed(struct arena *arena, size_t first, size_t end, bool is)
{
    for (size_t granule = first; granule < end; granule++) {
        const uint64_t bit = UINT64_C(1) << granule % 64;

        if (is) {
            arena->committed[granule / 64] |= bit;
        } else {
            arena->committed[granule / 64] &= ~bit;
        }
    }
}

/** The end of the granules from `first` on that are committed like it. */
static size_t stretch_end(const struct arena *arena, size_t first, size_t end)
{
    size_t granule = first + 1;

    while (granule < end &&
            is_committed(arena, granule) == is_committed(arena, first)) {
        granule++;
    }
    return granule;
}

/*
 * Commits granules in steps, as long as memory is left for them; what was committed before
 * there was none stays so, for the caller to discard.
 */
static bool commit_new(struct arena *arena, size_t granule, size_t end)
{
    const size_t step = arena->headroom.step / GRANULE;
    const bool at_once = end - granule <= step;
    bool fits = headroom_take(&arena->headroom, (end - granule) * GRANULE);

    while (fits && granule < end) {
        const size_t next = size_min(granule + step, end);

        fits = (at_once ||
                       headroom_take(&arena->headroom, (next - granule) * GRANULE)) &&
                reservation_commit(arena->reservation, granule * GRANULE,
                        (next - granule) * GRANULE);
        if (fits) {
            set_committed(arena, granule, next, true);
            granule = next;
        }
    }
    return fits;
}

/** Makes a range that no block in use covers zeroed and committed memory. */
static bool commit(struct arena *arena, size_t offset, size_t bytes)
{
    const size_t end = (offset + bytes + GRANULE - 1) / GRANULE;
    size_t next;

    for (size_t granule = offset / GRANULE; granule < end; granule = next) {
        const size_t from = size_max(granule * GRANULE, offset);
        size_t to;

        next = stretch_end(arena, granule, end);
        to = size_min(next * GRANULE, offset + bytes);
        if (is_committed(arena, granule)) {
            memset(address_of(arena, from), 0, to - from);
            arena->spare_bytes -= size_min(arena->spare_bytes, to - from);
        } else if (!commit_new(arena, granule, next)) {
            return false;
        }
    }
    return true;
}

/** Discards the granules that lie within a free block. */
static void discard(struct arena *arena, const struct arena_block *block)
{
    const size_t end = (block->offset + block->bytes) / GRANULE;
    size_t next;

    for (size_t granule = (block->offset + GRANULE - 1) / GRANULE; granule < end;
            granule = next) {
        const size_t bytes =
                ((next = stretch_end(arena, granule, end)) - granule) * GRANULE;

        if (is_committed(arena, granule)) {
            reservation_discard(arena->reservation, granule * GRANULE, bytes);
            set_committed(arena, granule, next, false);
            arena->spare_bytes -= size_min(arena->spare_bytes, bytes);
        }
    }
}

/* -------------------------------------------------------------------- blocks */

static struct arena_block *block_new(size_t offset, size_t bytes)
{
    struct arena_block *block = mem_calloc(1, sizeof *block);

    if (block != NULL) {
        block->offset = offset;
        block->bytes = bytes;
    }
    return block;
}

/** Cuts a block in two at a length; false when out of memory. */
static bool block_cut(struct arena_block *block, size_t bytes)
{
    struct arena_block *rest;

    if (block->bytes == bytes) {
        return true;
    }
    rest = block_new(block->offset + bytes, block->bytes - bytes);
    if (rest == NULL) {
        return false;
    }
    rest->previous = block;
    rest->next = block->next;
    if (rest->next != NULL) {
        rest->next->previous = rest;
    }
    block->next = rest;
    block->bytes = bytes;
    return true;
}

/** Joins a free block with the one behind it, if that is free. */
static void block_join_next(struct arena_block *block)
{
    struct arena_block *next = block->next;

    if (next == NULL || next->in_use) {
        return;
    }
    block->bytes += next->bytes;
    block->next = next->next;
    if (block->next != NULL) {
        block->next->previous = block;
    }
    mem_free(next);
}

static struct arena_block *block_release(struct arena_block *block)
{
    block->in_use = false;
    block_join_next(block);
    if (block->previous != NULL && !block->previous->in_use) {
        block = block->previous;
        block_join_next(block);
    }
    return block;
}

/** Where memory may begin: at offsets that are so much behind multiples of a power of two. */
struct position {
    size_t alignment;
    size_t behind;
};

/** Bytes of a block in front of a position; false when it has no room behind them. */
static bool block_has_room(const struct arena_block *block, size_t bytes,
        struct position position, size_t *skipped)
{
    *skipped = (position.behind - block->offset) & (position.alignment - 1);
    return !block->in_use && block->bytes >= *skipped &&
            block->bytes - *skipped >= bytes;
}

/** The first free block with room; cut so that it begins and ends where it should. */
static struct arena_block *block_take(
        struct arena *arena, size_t bytes, struct position position)
{
    struct arena_block *block = arena->blocks;
    size_t skipped = 0;

    while (block != NULL && !block_has_room(block, bytes, position, &skipped)) {
        block = block->next;
    }
    if (block == NULL || (skipped > 0 && !block_cut(block, skipped))) {
        return NULL;
    }
    block = skipped > 0 ? block->next : block;
    if (!block_cut(block, bytes)) {
        return NULL;
    }
    block->in_use = true;
    return block;
}

static bool block_has_address(const void *value, const void *key)
{
    const struct arena_block *block = value;

    return block->offset == *(const size_t *)key;
}

/* --------------------------------------------------------------------- arena */

static void *alloc_locked(struct arena *arena, size_t bytes, struct position position)
{
    struct arena_block *block = block_take(arena, bytes, position);
    char *memory;

    if (block == NULL) {
        errno = headroom_take(&arena->headroom, bytes) ? ENOSPC : errno;
        return NULL;
    }
    memory = address_of(arena, block->offset);
    if (bytes >= LARGE) {
        (void)madvise(memory, bytes & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
    }
    if (!commit(arena, block->offset, bytes) ||
            !map_insert(&arena->used, address_hash(memory), block)) {
        discard(arena, block_release(block));
        return NULL;
    }
    return memory;
}

static void *alloc_at(struct arena *arena, size_t bytes, struct position position)
{
    void *memory;

    if (bytes > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    pthread_mutex_lock(&arena->lock);
    memory = alloc_locked(arena, size_align(size_max(bytes, 1), ALIGNMENT), position);
    pthread_mutex_unlock(&arena->lock);
    return memory;
}

bool arena_commit(struct arena *arena, size_t bytes)
{
    return bytes <= arena->blocks->bytes && commit(arena, arena->blocks->offset, bytes);
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    return alloc_at(arena, bytes,
            (struct position){ .alignment = bytes >= LARGE ? HUGE_PAGE : ALIGNMENT });
}

void *arena_alloc_pages(struct arena *arena, size_t bytes, uintptr_t page)
{
    const size_t alignment = bytes >= LARGE ? HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE);

    return alloc_at(arena, bytes,
            (struct position){
                    .alignment = alignment, .behind = page & (alignment - 1) });
}

bool arena_free(struct arena *arena, void *memory)
{
    struct arena_block *block;
    size_t offset;

    if (memory == NULL) {
        return true;
    }
    offset = (size_t)((char *)memory - (char *)arena->reservation->base);
    pthread_mutex_lock(&arena->lock);
    block = map_find(&arena->used, address_hash(memory), block_has_address, &offset);
    if (block != NULL) {
        (void)map_remove(&arena->used, address_hash(memory), block);
        arena->spare_bytes += block->bytes;
        block = block_release(block);
        if (arena->spare_bytes > SPARE_BYTES_MAX) {
            discard(arena, block);
        }
    }
    pthread_mutex_unlock(&arena->lock);
    return block != NULL;
}

bool arena_init(struct arena *arena, const struct reservation *reservation,
        size_t first, int sharers)
{
    const size_t granules = reservation->bytes / GRANULE + 1;

    *arena = (struct arena){ .reservation = reservation,
        .blocks = block_new(first, reservation->bytes - first),
        .committed = mem_calloc(granules / 64 + 1, sizeof *arena->committed) };
    if (arena->blocks == NULL || arena->committed == NULL) {
        mem_free(arena->blocks);
        mem_free(arena->committed);
        return false;
    }
    headroom_init(&arena->headroom, sharers);
    (void)pthread_mutex_init(&arena->lock, NULL);
    return true;
}

void arena_fini(struct arena *arena)
{
    struct arena_block *block = arena->blocks;

    while (block != NULL) {
        struct arena_block *next = block->next;

        mem_free(block);
        block = next;
    }
    map_fini(&arena->used);
    mem_free(arena->committed);
    headroom_fini(&arena->headroom);
    (void)pthread_mutex_destroy(&arena->lock);
    *arena = (struct arena){ 0 };
}
