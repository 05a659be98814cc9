/*
 * Pinned host memory, which the device copies to and from by itself. To pin is slow, and to
 * unpin waits for the device: blocks are kept until the GPU is closed.
 */
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/memory.h"

#define PINNED_MIN ((size_t)64 << 10)
/* Up to here blocks are powers of two, so that they fit again; then multiples of it. */
#define PINNED_STEP ((size_t)16 << 20)

/* 0: too much. */
static size_t rounded(size_t bytes)
{
    size_t size = PINNED_MIN;

    if (bytes > PINNED_STEP) {
        size = size_align(bytes, PINNED_STEP);
        return size < bytes ? 0 : size;
    }
    while (size < bytes) {
        size *= 2;
    }
    return size;
}

/* The smallest block that is large enough. */
static struct pinned *take_spare(struct gpu_memory *memory, size_t bytes)
{
    struct pinned *best = NULL;

    (void)pthread_mutex_lock(&memory->lock);
    for (struct pinned *p = memory->pinned; p != NULL; p = p->next) {
        if (!p->is_used && p->bytes >= bytes &&
                (best == NULL || p->bytes < best->bytes)) {
            best = p;
        }
    }
    if (best != NULL) {
        best->is_used = true;
    }
    (void)pthread_mutex_unlock(&memory->lock);
    return best;
}

static tutti_status pin(struct gpu *gpu, struct pinned *block)
{
    tutti_status status = gpu_enter(gpu);

    if (status == TUTTI_OK) {
        status = gpu_check(gpu,
                gpu->cuda->mem_host_alloc(
                        &block->memory, block->bytes, CU_HOST_PORTABLE),
                "allocate pinned host memory");
        gpu_leave(gpu);
    }
    return status;
}

void *gpu_host_alloc(struct gpu *gpu, size_t bytes)
{
    const size_t size = rounded(bytes);
    struct pinned *block = take_spare(gpu->memory, bytes);

    if (block != NULL) {
        return block->memory;
    }
    block = mem_calloc(1, sizeof *block);
    if (block == NULL || size == 0) {
        mem_free(block);
        error_note("no memory for %zu bytes of pinned memory", bytes);
        return NULL;
    }
    *block = (struct pinned){ .bytes = size, .is_used = true };
    if (pin(gpu, block) != TUTTI_OK) {
        mem_free(block);
        return NULL;
    }
    (void)pthread_mutex_lock(&gpu->memory->lock);
    block->next = gpu->memory->pinned;
    gpu->memory->pinned = block;
    (void)pthread_mutex_unlock(&gpu->memory->lock);
    return block->memory;
}

void gpu_host_give_back(struct gpu *gpu, void *memory)
{
    (void)pthread_mutex_lock(&gpu->memory->lock);
    for (struct pinned *p = gpu->memory->pinned; p != NULL; p = p->next) {
        if (p->memory == memory) {
            p->is_used = false;
        }
    }
    (void)pthread_mutex_unlock(&gpu->memory->lock);
}

void pinned_close(struct gpu *gpu)
{
    struct gpu_memory *memory = gpu->memory;

    while (memory->pinned != NULL) {
        struct pinned *block = memory->pinned;

        memory->pinned = block->next;
        if (!gpu->is_gone) {
            (void)gpu->cuda->mem_free_host(block->memory);
        }
        mem_free(block);
    }
}
