/*
 * What a rank has put on its GPU and what has not passed yet, oldest first.
 */
#ifndef TUTTI_OPS_GPU_FLIGHT_H
#define TUTTI_OPS_GPU_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/gpu/gpu.h"
#include "ops/op.h"

/**
 * Batches that may be on the way; more wait until some have passed. A stream of CUDA holds about
 * a thousand launches, and the next one blocks: the thread would then not learn of a death,
 * which may be what the GPU waits for. A batch is about four commands on a stream.
 */
#define FLIGHT_MAX ((size_t)128)

/** A batch whose commands are issued. */
struct flight_batch {
    struct device_event
            *event; /* after its last command; a reference                  */
    int64_t since_ns; /* when it was issued                                   */
    uint32_t set; /* its process set                                      */
    tutti_collective collective; /* for messages */
    size_t tensors; /* for messages */
};

/** Zeroed: nothing flies. */
struct flight {
    struct flight_batch batches[FLIGHT_MAX]; /* a ring                               */
    size_t first; /* index of the oldest                                           */
    size_t count; /* of those that fly                                             */
};

/** Adds a batch, where there are fewer than FLIGHT_MAX; the event gets a reference. */
void flight_add(struct flight *flight, const struct op_batch *batch,
        struct device_event *event);

/** Forgets those that have passed. Errors: the device is lost. */
tutti_status flight_sweep(struct flight *flight, struct gpu *gpu);

/**
 * The oldest must not be older than gpu_timeout_s; after flight_sweep().
 * @return TUTTI_OK; TUTTI_ERR_SYSTEM with words
 */
tutti_status flight_check(struct flight *flight, const struct gpu *gpu);

/** Forgets all of them. */
void flight_fini(struct flight *flight, struct gpu *gpu);

#endif
