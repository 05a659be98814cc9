/*
 * Allocations. Fresh memory is filled with 0xCB, freed memory with 0xDD and not used again
 * (unless GPUSIM_REUSE is set); a guard of at least 512 bytes of 0xFD lies behind each
 * allocation and is looked at when it is freed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/gpusim/state.h"

#if defined(__SANITIZE_ADDRESS__)
#    define GPUSIM_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define GPUSIM_ASAN 1
#    endif
#endif
#ifdef GPUSIM_ASAN
#    include <sanitizer/asan_interface.h>
#else
#    define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#    define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum {
    ALIGNMENT = 512,
    BYTE_FRESH = 0xCB,
    BYTE_FREED = 0xDD,
    BYTE_GUARD = 0xFD,
    QUARANTINE_BYTES = 64 << 20
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

    return found != NULL && found->state == ALLOCATION_LIVE &&
                    address - found->start < found->bytes
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
    if (found->state != ALLOCATION_LIVE) {
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

static void fill(
        const struct arena *arena, const struct allocation *allocation, int byte)
{
    char *at = arena->alias + (allocation->start - arena->base);
    size_t guard = allocation->span_bytes - allocation->bytes;

    ASAN_UNPOISON_MEMORY_REGION(at, allocation->span_bytes);
    gpusim_memory_lock();
    memset(at, byte, allocation->bytes);
    memset(at + allocation->bytes, BYTE_GUARD, guard);
    gpusim_memory_unlock();
    if (arena->base == (uint64_t)(uintptr_t)arena->alias) {
        ASAN_POISON_MEMORY_REGION(at + allocation->bytes, guard);
    }
}

/* A freed allocation of the same size, when addresses are used again. */
static struct allocation *arena_reuse(struct arena *arena, size_t span_bytes)
{
    for (size_t i = 0; sim.reuses && i < arena->count; i++) {
        struct allocation *freed = arena->allocations[i];

        if (freed->state != ALLOCATION_LIVE && freed->span_bytes == span_bytes) {
            arena->quarantine -=
                    freed->state == ALLOCATION_FREED ? freed->span_bytes : 0;
            return freed;
        }
    }
    return NULL;
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
    allocation = arena_reuse(arena, span_bytes);
    if (allocation == NULL) {
        allocation = arena_extend(arena, span_bytes);
    }
    if (allocation == NULL) {
        return CUDA_OUT_OF_MEMORY;
    }
    allocation->bytes = bytes;
    allocation->owner = context;
    allocation->state = ALLOCATION_LIVE;
    fill(arena, allocation, BYTE_FRESH);
    device->used_bytes += kind == ARENA_PINNED ? 0 : bytes;
    *out = allocation;
    return CUDA_SUCCESS;
}

static void guard_check(const struct arena *arena, const struct allocation *allocation)
{
    const char *at = arena->alias + (allocation->start - arena->base);
    size_t guard = allocation->span_bytes - allocation->bytes;

    ASAN_UNPOISON_MEMORY_REGION(at + allocation->bytes, guard);
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

/* Gives pages of the oldest freed allocations back, when many bytes are only poison. */
static void quarantine_trim(struct arena *arena)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    while (arena->quarantine > QUARANTINE_BYTES && arena->oldest < arena->count) {
        struct allocation *old = arena->allocations[arena->oldest++];
        size_t from = (old->start - arena->base + page - 1) & ~(page - 1);
        size_t to = (old->start - arena->base + old->span_bytes) & ~(page - 1);

        if (old->state != ALLOCATION_FREED) {
            continue;
        }
        if (to > from) {
            (void)madvise(arena->alias + from, to - from, MADV_REMOVE);
        }
        old->state = ALLOCATION_DROPPED;
        arena->quarantine -= old->span_bytes;
    }
    if (arena->oldest == arena->count) {
        arena->oldest = 0;
    }
}

static void release(struct arena *arena, struct allocation *allocation)
{
    guard_check(arena, allocation);
    shadow_fini(&allocation->shadow);
    fill(arena, allocation, BYTE_FREED);
    allocation->state = ALLOCATION_FREED;
    if (arena->kind != ARENA_PINNED) {
        allocation->owner->device->used_bytes -= allocation->bytes;
    }
    arena->quarantine += allocation->span_bytes;
    quarantine_trim(arena);
}

void memory_end(struct context *context)
{
    struct arena *arena;

    for (size_t i = 0; (arena = arena_at(i)) != NULL; i++) {
        for (size_t j = 0; j < arena->count; j++) {
            struct allocation *allocation = arena->allocations[j];

            if (allocation->owner == context && allocation->state == ALLOCATION_LIVE) {
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
            if (arena->allocations[j]->state == ALLOCATION_LIVE) {
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
    struct host *host = host_self();
    struct gpusim_range range;
    struct clock clock;

    if (pointer == 0 && !pinned) {
        return CUDA_SUCCESS;
    }
    if (allocation == NULL || allocation->start != pointer ||
            (arena->kind == ARENA_PINNED) != pinned) {
        return CUDA_INVALID_VALUE;
    }
    if (allocation->state != ALLOCATION_LIVE) {
        gpusim_report("%s of memory that was freed before", function);
        return CUDA_INVALID_VALUE;
    }
    range = (struct gpusim_range){ .start = allocation->start,
        .bytes = allocation->bytes };
    clock = clock_copy(&host->clock);
    context_wait(allocation->owner);
    (void)access_touch(
            &(struct access){
                    .label = function,
                    .who = intern(host->name),
                    .time = clock_time(&clock, host->actor),
                    .actor = host->actor,
            },
            &clock, &range, true);
    clock_fini(&clock);
    if (allocation->state == ALLOCATION_LIVE) {
        release(arena, allocation);
    }
    return CUDA_SUCCESS;
}
