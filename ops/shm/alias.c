/*
 * The table of a rank's aliases, and tensors in them.
 */
#include "ops/shm/alias.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

/* ---------------------------------------------------------------- the table */

/** Changes it under the lock. */
static void set_count(struct aliases *aliases, size_t count)
{
    atomic_store_explicit(&aliases->count, count, memory_order_relaxed);
}

/* Submissions come after tutti_share() has returned, and are queued by a release. */
static size_t count_of(const struct aliases *aliases)
{
    return atomic_load_explicit(&aliases->count, memory_order_relaxed);
}

/** The first alias that ends behind an address; the count where there is none. */
static size_t find_place(const struct aliases *aliases, uintptr_t address)
{
    size_t low = 0;
    size_t high = count_of(aliases);

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (aliases->list[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void insert(struct aliases *aliases, const struct alias *alias)
{
    const size_t count = count_of(aliases);
    size_t at;

    pthread_mutex_lock(&aliases->lock);
    at = find_place(aliases, alias->begin);
    memmove(&aliases->list[at + 1], &aliases->list[at],
            (count - at) * sizeof *aliases->list);
    aliases->list[at] = *alias;
    set_count(aliases, count + 1);
    pthread_mutex_unlock(&aliases->lock);
}

/** Room for one more, so that insert() cannot fail. */
static tutti_status make_room(struct aliases *aliases)
{
    const size_t count = count_of(aliases);
    bool has_room;

    pthread_mutex_lock(&aliases->lock);
    has_room = mem_grow(
            &aliases->list, &aliases->capacity, count + 1, sizeof *aliases->list);
    pthread_mutex_unlock(&aliases->lock);
    return has_room
            ? TUTTI_OK
            : error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu ranges", count + 1);
}

/** The ends of a range, and of its whole pages. */
static struct alias alias_of(const void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct alias alias = { .begin = (uintptr_t)memory,
        .end = (uintptr_t)memory + bytes };

    alias.first = (alias.begin + page - 1) & ~(page - 1);
    alias.last = alias.end & ~(page - 1);
    if (alias.first >= alias.last) {
        alias.first = alias.end;
        alias.last = alias.end;
    }
    return alias;
}

/** Takes the block of an alias, with its whole pages where pages begin. */
static tutti_status take_block(struct aliases *aliases, struct alias *alias)
{
    const size_t bytes = alias->end - alias->begin;
    const bool has_pages = alias->first < alias->last;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const size_t lead = has_pages ? alias->begin & (page - 1) : 0;

    alias->block = has_pages
            ? arena_alloc_pages(aliases->arena, lead + bytes, alias->begin - lead)
            : arena_alloc(aliases->arena, bytes);
    if (alias->block == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no shared memory for %zu bytes: %s",
                bytes, reservation_lack(aliases->arena->reservation));
    }
    alias->offset =
            (uint64_t)(alias->block - (char *)aliases->arena->reservation->base) + lead;
    return TUTTI_OK;
}

static tutti_status add_locked(struct aliases *aliases, struct alias *alias)
{
    tutti_status status = alias_check_pages(alias);

    if (status == TUTTI_OK) {
        status = make_room(aliases);
    }
    if (status == TUTTI_OK) {
        status = take_block(aliases, alias);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = alias_map_pages(aliases, alias);
    if (status != TUTTI_OK) {
        arena_free(aliases->arena, alias->block);
        return status;
    }
    insert(aliases, alias);
    return TUTTI_OK;
}

tutti_status aliases_add(struct aliases *aliases, void *memory, size_t bytes)
{
    struct alias alias = alias_of(memory, bytes);
    tutti_status status;

    if (bytes == 0 || aliases->arena == NULL) {
        return TUTTI_OK;
    }
    if (alias.end < alias.begin) {
        return error_set(TUTTI_ERR_INVALID, "it goes beyond the last address");
    }
    pthread_mutex_lock(&aliases->changing);
    status = add_locked(aliases, &alias);
    pthread_mutex_unlock(&aliases->changing);
    return status;
}

static tutti_status take_out(
        struct aliases *aliases, const void *memory, struct alias *alias)
{
    const size_t count = count_of(aliases);
    const size_t at = find_place(aliases, (uintptr_t)memory);

    if (at == count || aliases->list[at].begin != (uintptr_t)memory) {
        return error_set(TUTTI_ERR_INVALID, "no shared memory begins there");
    }
    pthread_mutex_lock(&aliases->lock);
    *alias = aliases->list[at];
    memmove(&aliases->list[at], &aliases->list[at + 1],
            (count - at - 1) * sizeof *aliases->list);
    set_count(aliases, count - 1);
    pthread_mutex_unlock(&aliases->lock);
    return TUTTI_OK;
}

static tutti_status remove_locked(struct aliases *aliases, const void *memory)
{
    struct alias alias;
    tutti_status status = take_out(aliases, memory, &alias);

    if (status != TUTTI_OK) {
        return status;
    }
    status = alias_unmap_pages(aliases, &alias);
    if (status == TUTTI_OK) {
        arena_free(aliases->arena, alias.block);
    } else if (status != TUTTI_ERR_INVALID) {
        insert(aliases, &alias);
    }
    return status;
}

tutti_status aliases_remove(struct aliases *aliases, const void *memory)
{
    tutti_status status;

    if (aliases->arena == NULL) {
        return TUTTI_OK;
    }
    pthread_mutex_lock(&aliases->changing);
    status = remove_locked(aliases, memory);
    pthread_mutex_unlock(&aliases->changing);
    return status;
}

void aliases_init(struct aliases *aliases, struct arena *arena)
{
    *aliases = (struct aliases){ .arena = arena };
    (void)pthread_mutex_init(&aliases->changing, NULL);
    (void)pthread_mutex_init(&aliases->lock, NULL);
}

/* What cannot be given back stays mapped: the memory lives as long as that. */
void aliases_fini(struct aliases *aliases)
{
    const size_t count = count_of(aliases);

    if (aliases->arena == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        (void)!alias_unmap_pages(aliases, &aliases->list[i]);
    }
    mem_free(aliases->list);
    (void)pthread_mutex_destroy(&aliases->changing);
    (void)pthread_mutex_destroy(&aliases->lock);
    *aliases = (struct aliases){ .arena = NULL };
}

/* ---------------------------------------------------------------- in flight */

/** Copies the part of a tensor that is in a range which is not whole pages. */
static void copy_edge(const struct aliases *aliases, const struct alias *alias,
        const uintptr_t tensor[2], const uintptr_t edge[2], bool is_written)
{
    const uintptr_t begin = tensor[0] > edge[0] ? tensor[0] : edge[0];
    const uintptr_t end = tensor[1] < edge[1] ? tensor[1] : edge[1];

    if (begin >= end) {
        return;
    }
    if (is_written) {
        memcpy(alias_pointer(begin), alias_in_block(aliases, alias, begin),
                end - begin);
    } else {
        memcpy(alias_in_block(aliases, alias, begin), alias_pointer(begin),
                end - begin);
    }
}

static void copy_edges(const struct aliases *aliases, const struct alias *alias,
        uintptr_t begin, size_t bytes, bool is_written)
{
    const uintptr_t tensor[2] = { begin, begin + bytes };
    const uintptr_t head[2] = { alias->begin, alias->first };
    const uintptr_t tail[2] = { alias->last, alias->end };

    copy_edge(aliases, alias, tensor, head, is_written);
    copy_edge(aliases, alias, tensor, tail, is_written);
}

uint64_t aliases_begin(
        struct aliases *aliases, const void *memory, size_t bytes, bool is_read)
{
    const uintptr_t begin = (uintptr_t)memory;
    uint64_t offset = UINT64_MAX;
    size_t at;

    if (bytes == 0 || count_of(aliases) == 0) {
        return offset;
    }
    pthread_mutex_lock(&aliases->lock);
    at = find_place(aliases, begin);
    if (at < count_of(aliases) && aliases->list[at].begin <= begin &&
            bytes <= aliases->list[at].end - begin) {
        const struct alias *alias = &aliases->list[at];

        offset = alias->offset + (begin - alias->begin);
        if (is_read) {
            copy_edges(aliases, alias, begin, bytes, false);
        }
    }
    pthread_mutex_unlock(&aliases->lock);
    return offset;
}

void aliases_end(struct aliases *aliases, const void *memory, size_t bytes)
{
    pthread_mutex_lock(&aliases->lock);
    copy_edges(aliases, &aliases->list[find_place(aliases, (uintptr_t)memory)],
            (uintptr_t)memory, bytes, true);
    pthread_mutex_unlock(&aliases->lock);
}
