/*
 * Where the buffers of a submission lie. On the thread that submits; no lock held, because
 * the device's driver is called.
 */
#ifndef TUTTI_DEVICE_PLACEMENT_H
#define TUTTI_DEVICE_PLACEMENT_H

#include <tutti/tutti.h>

#include "ops/device.h"

/** A buffer as far as this rank uses it. */
struct placement_buffer {
    const void *memory;
    size_t bytes; /* 0: not used, or nobody knows it yet */
};

/** What tells where a tensor lies. */
struct placement {
    struct placement_buffer input, output;
    /*
     * Of a rank that gives and takes nothing: what an address points to counts, though no
     * byte there is used, and then whether there is a stream. NULL and false: the host.
     */
    const void *unused;
    bool has_stream;
};

/**
 * The space of the buffers, which must be one.
 * @param name, rank  for messages
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM (the device is lost)
 */
tutti_status placement_find(const struct device *device, const char *name, int rank,
        const struct placement *placement, enum op_space *space);

#endif
