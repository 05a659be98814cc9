/*
 * Allocations. Fresh memory is filled with 0xCB; the pages of freed memory go back to the system,
 * and its addresses are not used again. A guard of at least 512 bytes of 0xFD lies behind each
 * allocation and is looked at when it is freed.
 */
#include <string.h>

#include "test/gpusim/state.h"

enum {
    ALIGNMENT = 512,
    BYTE_FRESH = 0xCB,
    BYTE_GUARD = 0xFD
};

struct allocation *memory_find(uint64_t address)
{
    struct allocation *found = arena_find(address);

    return found != NULL && found->is_live && address - found->start < found->bytes
            ? found
            : NULL;
}

int memory_check(const char *what, uint64_t address, size_t bytes)
{
    const struct allocation *found = arena_find(address);
    const uint64_t offset = found == NULL ? 0 : address - found->start;
    const char *wrong = NULL;

    if (found == NULL) {
        gpusim_report("%s touches %zu bytes that are no GPU's", what, bytes);
        return CUDA_INVALID_VALUE;
    }
    if (!found->is_live) {
        wrong = "uses freed";
    } else if (offset > found->bytes || bytes > found->bytes - offset) {
        wrong = "overruns its";
    }
    if (wrong != NULL) {
        gpusim_report(
                "%s %s memory: %zu bytes at offset %llu of an allocation of %zu bytes",
                what, wrong, bytes, (unsigned long long)offset, found->bytes);
    }
    return wrong == NULL ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

static int allocate(enum memory_kind kind, size_t bytes, uint64_t *pointer)
{
    struct context *context = context_current();
    struct device *device = context->device;
    struct allocation *allocation = NULL;
    char *at;

    if (bytes == 0) {
        return CUDA_INVALID_VALUE;
    }
    if (bytes <= device_bytes &&
            (kind == MEMORY_PINNED ||
                    device->used_bytes + bytes <= device->limit_bytes)) {
        allocation = arena_extend(
                kind, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT);
    }
    if (allocation == NULL) {
        return CUDA_OUT_OF_MEMORY;
    }
    allocation->bytes = bytes;
    allocation->owner = context;
    allocation->is_live = true;
    device->used_bytes += kind == MEMORY_PINNED ? 0 : bytes;
    at = gpusim_at(allocation->start);
    gpusim_memory_lock();
    memset(at, BYTE_FRESH, bytes);
    memset(at + bytes, BYTE_GUARD, allocation->span_bytes - bytes);
    gpusim_memory_unlock();
    *pointer = allocation->start;
    return CUDA_SUCCESS;
}

static void guard_check(const struct allocation *allocation)
{
    const unsigned char *at = gpusim_at(allocation->start);
    size_t i = allocation->bytes;

    gpusim_memory_lock();
    while (i < allocation->span_bytes && at[i] == BYTE_GUARD) {
        i++;
    }
    gpusim_memory_unlock();
    if (i < allocation->span_bytes) {
        gpusim_report("something wrote %zu bytes behind the end of an allocation of "
                      "%zu bytes",
                i - allocation->bytes, allocation->bytes);
    }
}

static void release(struct allocation *allocation)
{
    guard_check(allocation);
    shadow_fini(&allocation->shadow);
    arena_drop(allocation);
    allocation->is_live = false;
    if (allocation->kind != MEMORY_PINNED) {
        allocation->owner->device->used_bytes -= allocation->bytes;
    }
}

void memory_end(struct context *context)
{
    struct allocation *allocation;

    for (size_t i = 0; (allocation = arena_at(i)) != NULL; i++) {
        if (allocation->owner == context && allocation->is_live) {
            release(allocation);
        }
    }
}

/*
 * Freeing waits for all work of the context, as the driver may. That is no promise of the
 * driver's, so the checker treats the free as a write by the host at the time of the call.
 */
static int free_memory(const char *function, uint64_t pointer, bool pinned)
{
    struct allocation *allocation = arena_find(pointer);
    struct gpusim_range range;
    struct clock clock;

    if (pointer == 0 && !pinned) {
        return CUDA_SUCCESS;
    }
    if (allocation == NULL || allocation->start != pointer ||
            (allocation->kind == MEMORY_PINNED) != pinned) {
        return CUDA_INVALID_VALUE;
    }
    if (!allocation->is_live) {
        gpusim_report("%s of memory that was freed before", function);
        return CUDA_INVALID_VALUE;
    }
    range = (struct gpusim_range){ .start = pointer, .bytes = allocation->bytes };
    clock = clock_copy(&sim.host);
    context_wait(allocation->owner);
    access_by_host(function, &clock, &range, true);
    clock_fini(&clock);
    if (allocation->is_live) {
        release(allocation);
    }
    return CUDA_SUCCESS;
}

/* ---- the driver's calls ---- */

int sim_cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    return allocate(MEMORY_DEVICE, bytes, pointer);
}

int sim_cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(MEMORY_MANAGED, bytes, pointer);
}

int sim_cuMemFree_v2(uint64_t pointer)
{
    return free_memory("cuMemFree", pointer, false);
}

int sim_cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    uint64_t address = 0;
    int result = allocate(MEMORY_PINNED, bytes, &address);

    (void)flags;
    *pointer = (void *)(uintptr_t)address;
    return result;
}

int sim_cuMemFreeHost(void *pointer)
{
    return free_memory("cuMemFreeHost", (uint64_t)(uintptr_t)pointer, true);
}

/* CU_POINTER_ATTRIBUTE_ values. */
enum pointer_attribute {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_IS_MANAGED = 8,
    POINTER_ORDINAL = 9,
    POINTER_START = 11,
    POINTER_SIZE = 12
};

enum memory_type {
    TYPE_HOST = 1,
    TYPE_DEVICE = 2
};

static int give_attribute(
        void *value, enum pointer_attribute attribute, const struct allocation *of)
{
    switch (attribute) {
    case POINTER_CONTEXT:
        *(void **)value = of->kind == MEMORY_MANAGED ? NULL : of->owner->handle;
        return CUDA_SUCCESS;
    case POINTER_MEMORY_TYPE:
        *(unsigned *)value = of->kind == MEMORY_PINNED ? TYPE_HOST : TYPE_DEVICE;
        return CUDA_SUCCESS;
    case POINTER_START:
        *(uint64_t *)value = of->start;
        return CUDA_SUCCESS;
    case POINTER_IS_MANAGED:
        *(unsigned *)value = of->kind == MEMORY_MANAGED;
        return CUDA_SUCCESS;
    case POINTER_ORDINAL:
        *(int *)value = of->owner->device->ordinal;
        return CUDA_SUCCESS;
    case POINTER_SIZE:
        *(size_t *)value = of->bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_INVALID_VALUE;
}

/* Of an address that CUDA does not know nothing is written. */
int sim_cuPointerGetAttributes(
        unsigned count, int *attributes, void **values, uint64_t pointer)
{
    const struct allocation *found = memory_find(pointer);
    int result = CUDA_SUCCESS;

    for (unsigned i = 0; found != NULL && result == CUDA_SUCCESS && i < count; i++) {
        result =
                give_attribute(values[i], (enum pointer_attribute)attributes[i], found);
    }
    return result;
}

int gpusim_pointer_device(uint64_t address)
{
    const struct allocation *found;
    int device;

    pthread_mutex_lock(&sim.lock);
    found = memory_find(address);
    device = found == NULL || found->kind != MEMORY_DEVICE
            ? -1
            : found->owner->device->ordinal;
    pthread_mutex_unlock(&sim.lock);
    return device;
}

bool gpusim_range_is_live(uint64_t address, size_t bytes)
{
    const struct allocation *found;
    bool live;

    pthread_mutex_lock(&sim.lock);
    found = memory_find(address);
    live = found != NULL && bytes <= found->bytes - (address - found->start);
    pthread_mutex_unlock(&sim.lock);
    return live;
}
