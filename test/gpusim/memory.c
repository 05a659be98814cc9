/*
 * Allocations. Fresh memory is filled with 0xCB; the pages of freed memory go back to the system,
 * and its addresses are not used again. A guard of at least 512 bytes of 0xFD lies behind each
 * allocation and is looked at when it is freed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/gpusim/state.h"

enum {
    ALIGNMENT = 512,
    BYTE_FRESH = 0xCB,
    BYTE_GUARD = 0xFD
};

/* Index of the first allocation that starts behind the address. */
static size_t arena_behind(const struct arena *arena, uint64_t address)
{
    size_t low = 0, high = arena->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (arena->allocations[middle]->start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct allocation *memory_find(uint64_t address, struct arena **arena)
{
    struct arena *found = arena_of(address);
    size_t behind;

    if (found == NULL) {
        return NULL;
    }
    behind = arena_behind(found, address);
    if (behind == 0) {
        return NULL;
    }
    if (arena != NULL) {
        *arena = found;
    }
    return found->allocations[behind - 1];
}

/* The live allocation that holds the address. */
struct allocation *memory_live_find(uint64_t address, struct arena **arena)
{
    struct allocation *found = memory_find(address, arena);

    return found != NULL && found->is_live && address - found->start < found->bytes
            ? found
            : NULL;
}

int memory_check(const char *what, uint64_t address, size_t bytes)
{
    struct allocation *found = memory_find(address, NULL);
    uint64_t offset = found == NULL ? 0 : address - found->start;

    if (found == NULL || offset >= found->span_bytes) {
        return CUDA_INVALID_VALUE;
    }
    if (!found->is_live) {
        gpusim_report(
                "%s uses freed memory: %zu bytes at offset %llu of an allocation of "
                "%zu bytes",
                what, bytes, (unsigned long long)offset, found->bytes);
        return CUDA_INVALID_VALUE;
    }
    if (offset > found->bytes || bytes > found->bytes - offset) {
        gpusim_report(
                "%s overruns its memory: %zu bytes at offset %llu of an allocation of "
                "%zu bytes",
                what, bytes, (unsigned long long)offset, found->bytes);
        return CUDA_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static void fill_fresh(const struct arena *arena, const struct allocation *allocation)
{
    char *at = arena->alias + (allocation->start - arena->base);

    gpusim_memory_lock();
    memset(at, BYTE_FRESH, allocation->bytes);
    memset(at + allocation->bytes, BYTE_GUARD,
            allocation->span_bytes - allocation->bytes);
    gpusim_memory_unlock();
}

static struct allocation *arena_extend(struct arena *arena, size_t span_bytes)
{
    struct allocation *allocation;

    if (span_bytes > arena->reserved - arena->next) {
        return NULL;
    }
    if (arena->count == arena->capacity) {
        arena->capacity = 2 * arena->capacity + 64;
        arena->allocations = realloc(
                arena->allocations, arena->capacity * sizeof *arena->allocations);
    }
    allocation = calloc(1, sizeof *allocation);
    allocation->start = arena->base + arena->next;
    allocation->span_bytes = span_bytes;
    arena->next += span_bytes;
    arena->allocations[arena->count++] = allocation;
    return allocation;
}

int memory_allocate(enum arena_kind kind, size_t bytes, struct allocation **out)
{
    struct context *context = context_current();
    struct device *device = context->device;
    struct arena *arena = arena_find(kind, device->ordinal);
    struct allocation *allocation;
    size_t span_bytes;

    if (bytes == 0) {
        return CUDA_INVALID_VALUE;
    }
    if (bytes > arena->reserved / 2 ||
            (kind != ARENA_PINNED &&
                    (bytes > device->total_bytes - device->used_bytes ||
                            device->used_bytes + bytes > device->limit_bytes))) {
        return CUDA_OUT_OF_MEMORY;
    }
    span_bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT;
    allocation = arena_extend(arena, span_bytes);
    if (allocation == NULL) {
        return CUDA_OUT_OF_MEMORY;
    }
    allocation->bytes = bytes;
    allocation->owner = context;
    allocation->is_live = true;
    fill_fresh(arena, allocation);
    device->used_bytes += kind == ARENA_PINNED ? 0 : bytes;
    *out = allocation;
    return CUDA_SUCCESS;
}

static void guard_check(const struct arena *arena, const struct allocation *allocation)
{
    const char *at = arena->alias + (allocation->start - arena->base);

    gpusim_memory_lock();
    for (size_t i = allocation->bytes; i < allocation->span_bytes; i++) {
        if ((unsigned char)at[i] != BYTE_GUARD) {
            gpusim_report(
                    "something wrote %zu bytes behind the end of an allocation of "
                    "%zu bytes",
                    i - allocation->bytes, allocation->bytes);
            break;
        }
    }
    gpusim_memory_unlock();
}

/* The whole pages of a freed allocation go back to the system. */
static void drop_pages(const struct arena *arena, const struct allocation *allocation)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t start = allocation->start - arena->base;
    const size_t from = (start + page - 1) & ~(page - 1);
    const size_t to = (start + allocation->span_bytes) & ~(page - 1);

    if (to > from) {
        (void)madvise(arena->alias + from, to - from, MADV_REMOVE);
    }
}

static void release(const struct arena *arena, struct allocation *allocation)
{
    guard_check(arena, allocation);
    shadow_fini(&allocation->shadow);
    drop_pages(arena, allocation);
    allocation->is_live = false;
    if (arena->kind != ARENA_PINNED) {
        allocation->owner->device->used_bytes -= allocation->bytes;
    }
}

void memory_end(struct context *context)
{
    struct arena *arena;

    for (size_t i = 0; (arena = arena_at(i)) != NULL; i++) {
        for (size_t j = 0; j < arena->count; j++) {
            struct allocation *allocation = arena->allocations[j];

            if (allocation->owner == context && allocation->is_live) {
                release(arena, allocation);
            }
        }
    }
}

size_t memory_live(enum arena_kind kind, size_t *bytes)
{
    size_t count = 0;

    const struct arena *arena;

    for (size_t i = 0; (arena = arena_at(i)) != NULL; i++) {
        for (size_t j = 0; arena->kind == kind && j < arena->count; j++) {
            if (arena->allocations[j]->is_live) {
                *bytes += arena->allocations[j]->bytes;
                count++;
            }
        }
    }
    return count;
}

/*
 * Freeing waits for all work of the context, as the driver may. That is no promise of the
 * driver's, so the checker treats the free as a write by the host at the time of the call.
 */
int memory_free(const char *function, uint64_t pointer, bool pinned)
{
    struct arena *arena = NULL;
    struct allocation *allocation = memory_find(pointer, &arena);
    struct gpusim_range range;
    struct clock clock;

    if (pointer == 0 && !pinned) {
        return CUDA_SUCCESS;
    }
    if (allocation == NULL || allocation->start != pointer ||
            (arena->kind == ARENA_PINNED) != pinned) {
        return CUDA_INVALID_VALUE;
    }
    if (!allocation->is_live) {
        gpusim_report("%s of memory that was freed before", function);
        return CUDA_INVALID_VALUE;
    }
    range = (struct gpusim_range){ .start = allocation->start,
        .bytes = allocation->bytes };
    clock = clock_copy(&sim.host);
    context_wait(allocation->owner);
    access_by_host(function, &clock, &range, true);
    clock_fini(&clock);
    if (allocation->is_live) {
        release(arena, allocation);
    }
    return CUDA_SUCCESS;
}
