/*
 * The driver's calls about memory: getting and giving it back, and what a pointer is.
 */
#include "test/gpusim/state.h"

static int allocate_pointer(enum arena_kind kind, uint64_t *pointer, size_t bytes)
{
    struct allocation *allocation;
    int result = memory_allocate(kind, bytes, &allocation);

    if (result == CUDA_SUCCESS) {
        *pointer = allocation->start;
    }
    return result;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    int result = sim_enter("cuMemAlloc_v2", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);

    if (result == CUDA_SUCCESS) {
        result = allocate_pointer(ARENA_DEVICE, pointer, bytes);
    }
    return sim_leave(result);
}

int cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags)
{
    int result = sim_enter("cuMemAllocManaged", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);

    (void)flags;
    if (result == CUDA_SUCCESS) {
        result = allocate_pointer(ARENA_MANAGED, pointer, bytes);
    }
    return sim_leave(result);
}

int cuMemFree_v2(uint64_t pointer)
{
    int result = sim_enter("cuMemFree_v2", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);

    if (result == CUDA_SUCCESS) {
        result = memory_free("cuMemFree", pointer, false);
    }
    return sim_leave(result);
}

int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    int result = sim_enter("cuMemHostAlloc", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);
    uint64_t address = 0;

    (void)flags;
    if (result == CUDA_SUCCESS) {
        result = allocate_pointer(ARENA_PINNED, &address, bytes);
    }
    if (result == CUDA_SUCCESS) {
        *pointer = (void *)(uintptr_t)address;
    }
    return sim_leave(result);
}

int cuMemFreeHost(void *pointer)
{
    int result = sim_enter("cuMemFreeHost", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);

    if (result == CUDA_SUCCESS) {
        result = memory_free("cuMemFreeHost", (uint64_t)(uintptr_t)pointer, true);
    }
    return sim_leave(result);
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
    MEMORY_HOST = 1,
    MEMORY_DEVICE = 2
};

/* Writes the attribute of a live allocation, or its null value when there is none. */
static int give_attribute(
        void *value, enum pointer_attribute attribute, uint64_t pointer)
{
    struct arena *arena = NULL;
    const struct allocation *found = memory_live_find(pointer, &arena);
    bool pinned = found != NULL && arena->kind == ARENA_PINNED;
    bool managed = found != NULL && arena->kind == ARENA_MANAGED;

    switch (attribute) {
    case POINTER_CONTEXT:
        *(void **)value = found == NULL || managed ? NULL : found->owner->handle;
        return CUDA_SUCCESS;
    case POINTER_MEMORY_TYPE:
        *(unsigned *)value = found == NULL ? 0 : pinned ? MEMORY_HOST : MEMORY_DEVICE;
        return CUDA_SUCCESS;
    case POINTER_START:
        *(uint64_t *)value = found == NULL ? 0 : found->start;
        return CUDA_SUCCESS;
    case POINTER_IS_MANAGED:
        *(unsigned *)value = managed ? 1 : 0;
        return CUDA_SUCCESS;
    case POINTER_ORDINAL:
        *(int *)value = found == NULL ? 0 : found->owner->device->ordinal;
        return CUDA_SUCCESS;
    case POINTER_SIZE:
        *(size_t *)value = found == NULL ? 0 : found->bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_INVALID_VALUE;
}

/* An address that CUDA does not know gives null values. */
int cuPointerGetAttributes(
        unsigned count, int *attributes, void **values, uint64_t pointer)
{
    int result = sim_enter("cuPointerGetAttributes", NEEDS_INIT);

    if (result == CUDA_SUCCESS) {
        for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++) {
            result = give_attribute(
                    values[i], (enum pointer_attribute)attributes[i], pointer);
        }
    }
    return sim_leave(result);
}

int gpusim_pointer_device(uint64_t address)
{
    struct arena *arena = NULL;
    int device;

    pthread_mutex_lock(&sim.lock);
    device = memory_live_find(address, &arena) == NULL ? -1 : arena->device;
    pthread_mutex_unlock(&sim.lock);
    return device;
}

bool gpusim_range_is_live(uint64_t address, size_t bytes)
{
    const struct allocation *found;
    bool live;

    pthread_mutex_lock(&sim.lock);
    found = memory_live_find(address, NULL);
    live = found != NULL && bytes <= found->bytes - (address - found->start);
    pthread_mutex_unlock(&sim.lock);
    return live;
}
