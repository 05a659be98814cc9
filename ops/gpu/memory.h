/*
 * What the files about the memory of a GPU share: memory.c (tutti_alloc), slabs.c, pinned.c
 * and look.c.
 *
 * Nothing is given back to the driver before the GPU is closed: cuMemFree() waits for all
 * that is on the device, and a collective there may wait for a rank that waits for this one.
 */
#ifndef TUTTI_OPS_GPU_MEMORY_H
#define TUTTI_OPS_GPU_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "ops/gpu/gpu.h"
#include "ops/gpu/pieces.h"

/** What pieces are cut from. */
struct stretch {
    struct gpu_stretch facts; /* fixed                                             */
    struct pieces pieces; /* lock                                              */
    struct stretch
            *next; /* older ones first: lower memory is filled up first; lock   */
};

/** Pinned host memory. */
struct pinned {
    void *memory; /* owned; fixed                                           */
    size_t bytes; /* fixed                                                  */
    bool is_used; /* lock                                                   */
    struct pinned *next; /* lock                                                */
};

struct gpu_memory {
    pthread_mutex_t lock; /* never held during a call of the driver                */

    /* tutti_alloc(TUTTI_DEVICE) */
    struct stretch *stretches; /* over next; owned; lock                           */
    size_t total; /* bytes of them; lock                                  */
    bool has_parted; /* there are PIECE_PARTED; lock                           */
    bool has_leaving; /* there are PIECE_LEAVING; lock                          */
    bool is_settling; /* a thread is in settle(), and `leaving` is its; lock    */
    struct device_event *leaving[GPU_STREAMS]; /* when those have left                */

    struct pinned *pinned; /* over next; owned; lock                               */

    /* of the thread that calls the backend */
    struct gpu_slab *spare; /* over next, the one that was given back first is first */
    struct gpu_slab *all; /* over next_of_all; owned                             */
};

static inline void *memory_address(cu_pointer pointer)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's addresses are numbers */
    return (void *)(uintptr_t)pointer;
}

static inline cu_pointer memory_pointer(const void *address)
{
    return (cu_pointer)(uintptr_t)address;
}

/**
 * Memory of the device, from NCCL where that can give some; the context is current.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status memory_grab(
        struct gpu *gpu, size_t bytes, struct gpu_stretch *stretch);
/** Gives it back to where it is from; the context is current. */
void memory_drop(const struct gpu *gpu, const struct gpu_stretch *stretch);

/** The stretch with an address, or NULL; the lock is held. */
struct stretch *memory_find_locked(const struct gpu_memory *memory, cu_pointer address);
/** What is behind an address of the piece that it is in. False: it is none of ours. */
bool memory_rest(struct gpu *gpu, cu_pointer address, struct piece *rest);

void slabs_close(struct gpu *gpu);
void pinned_close(struct gpu *gpu);

#endif
