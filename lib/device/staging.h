/*
 * Staging: batches of device memory that no backend takes go through host memory. Their
 * inputs are copied to pinned memory, a backend of host memory runs them under the same lane
 * and sequence number, and the outputs are copied back. Engine only.
 */
#ifndef TUTTI_DEVICE_STAGING_H
#define TUTTI_DEVICE_STAGING_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "ops/device.h"

/** A tensor of a staged batch: where its memory really is, and its copy on the host. */
struct staged {
    const char *
            name; /* for messages; borrowed until staging_place() has been called     */
    const void *
            input; /* the caller's; NULL: none                                        */
    size_t input_bytes;
    void *output; /* the caller's, or the request's; NULL: none, or not yet               */
    size_t output_bytes; /* where they are known                                          */
    bool is_known; /* `output` and output_bytes are                                        */
    bool is_shared; /* the output is the input's memory                                    */
    void *host_input,
            *host_output; /* owned; NULL: none; may be the same                  */
};

/** Of one batch. Zeroed is valid. */
struct staging {
    struct staged
            *items; /* owned; count of them                                          */
    size_t count, capacity;
    struct device_copy
            *copies; /* owned; scratch                                          */
    size_t copy_capacity;
};

/** Room for `count` tensors, to be filled with where they are; NULL when out of memory. */
struct staged *staging_items(struct staging *staging, size_t count);
/**
 * Copies the inputs to the host behind the events of the batch; *op->issued is the event after
 * them. Errors: TUTTI_ERR_NO_MEMORY, those of the device; nothing was begun.
 */
tutti_status staging_fetch(struct staging *staging, const struct device *device,
        const struct op_batch *op);
/** TUTTI_OK: the copies have been made, and their event is gone. TUTTI_AGAIN, or errors. */
tutti_status staging_look(const struct device *device, const struct op_batch *op);
/** The place of an output whose size the backend has found, or whose memory is new. */
tutti_status staging_place(struct staging *staging, const struct device *device,
        const struct op_batch *op, size_t item, size_t bytes);
/** The backend is done: copies the outputs back; *op->issued is the event after them. */
tutti_status staging_send_back(struct staging *staging, const struct device *device,
        const struct op_batch *op);
/** Gives the host's memory back, and the event. */
void staging_release(struct staging *staging, const struct device *device,
        struct device_event **event);
/** After staging_release(). */
void staging_fini(struct staging *staging);

#endif
