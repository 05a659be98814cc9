/*
 * What only tests call: looking into device memory, holding streams, counting what exists.
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

static bool touch_by_host(const char *label, uint64_t start, size_t bytes, bool writes)
{
    struct gpusim_range range = { .start = start, .bytes = bytes };
    struct allocation *found;

    pthread_mutex_lock(&sim.lock);
    found = memory_find_live(start) == NULL ? NULL : memory_check(label, start, bytes);
    if (found != NULL) {
        access_by_host(label, &sim.host, found, &range, writes);
    }
    pthread_mutex_unlock(&sim.lock);
    return found != NULL;
}

bool gpusim_read(void *to, uint64_t from, size_t bytes)
{
    if (!touch_by_host("gpusim_read", from, bytes, false)) {
        return false;
    }
    gpusim_copy_out(to, from, bytes);
    return true;
}

bool gpusim_write(uint64_t to, const void *from, size_t bytes)
{
    if (!touch_by_host("gpusim_write", to, bytes, true)) {
        return false;
    }
    gpusim_copy_in(to, from, bytes);
    return true;
}

bool gpusim_fill(uint64_t to, int byte, size_t bytes)
{
    if (!touch_by_host("gpusim_fill", to, bytes, true)) {
        return false;
    }
    gpusim_memory_lock();
    memset(gpusim_at(to), byte, bytes);
    gpusim_memory_unlock();
    return true;
}

static void change_holds(void *stream, int change)
{
    struct stream *found;

    pthread_mutex_lock(&sim.lock);
    found = stream_of(stream);
    if (found != NULL) {
        found->holds += change;
        pthread_cond_broadcast(&found->changed);
        pthread_cond_broadcast(&sim.progress);
    }
    pthread_mutex_unlock(&sim.lock);
}

void gpusim_hold(void *stream)
{
    change_holds(stream, 1);
}

void gpusim_release(void *stream)
{
    change_holds(stream, -1);
}

uint64_t gpusim_pending(void *stream)
{
    const struct stream *found;
    uint64_t pending;

    pthread_mutex_lock(&sim.lock);
    found = stream_of(stream);
    pending = found == NULL ? 0 : found->submitted - found->done;
    pthread_mutex_unlock(&sim.lock);
    return pending;
}

long gpusim_pageable_copies(void)
{
    long copies;

    pthread_mutex_lock(&sim.lock);
    copies = sim.pageable_copies;
    pthread_mutex_unlock(&sim.lock);
    return copies;
}

struct gpusim_live gpusim_live(void)
{
    struct gpusim_live live = { .streams = 0 };

    pthread_mutex_lock(&sim.lock);
    for (const struct allocation *a = memory_all(); a != NULL; a = a->next) {
        const bool pinned = a->kind == MEMORY_PINNED;

        if (a->is_live) {
            *(pinned ? &live.host_bytes : &live.device_bytes) += a->bytes;
            ++*(pinned ? &live.host_allocations : &live.device_allocations);
        }
    }
    live.streams = object_live(STREAM);
    live.events = object_live(EVENT);
    live.modules = object_live(MODULE);
    for (int i = 0; i < sim.device_count; i++) {
        live.retained += (size_t)sim.devices[i].retained;
    }
    pthread_mutex_unlock(&sim.lock);
    return live;
}
