/*
 * The GPU of a rank, as the core sees it: where memory lies, events in streams, and copies
 * between its memory and the host's. An interface like op.h; ops/gpu brings one.
 *
 * An *event* is a point in the commands of a stream: it has passed when all that was put on
 * the stream before it has been carried out. Events are counted: who makes one has a
 * reference.
 *
 * All functions may be called by any thread, and by several at a time; none waits for the
 * GPU. They make the device's context current for themselves and leave the caller's thread
 * as it was. Errors, unless said otherwise: TUTTI_ERR_SYSTEM with the driver's words; the
 * first one that says that the device is lost (it was reset, or a kernel has failed) is
 * told by every later call.
 */
#ifndef TUTTI_OPS_DEVICE_H
#define TUTTI_OPS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/op.h"

/** A copy between host and device. */
struct device_copy {
    void *to;
    const void *from;
    size_t bytes; /* 0: nothing */
};

/** Which way copies go. */
enum device_way {
    DEVICE_TO_HOST,
    HOST_TO_DEVICE
};

/** Zeroed: there is none. Outlives the context. */
struct device {
    void *state; /* NULL: there is none */

    /*
     * Where `bytes` bytes of memory lie; memory that the driver does not know is the
     * host's, and so is pinned and managed memory.
     * Errors: TUTTI_ERR_INVALID: it is of another device or of a foreign context, or ends
     * before `bytes`; words name the address, the devices and the way out.
     */
    tutti_status (*look)(
            void *state, const void *memory, size_t bytes, enum op_space *space);

    /*
     * A number for where the input and output of a tensor lie, of a set; both on the device or
     * not used (0 bytes). Equal on ranks where they lie at the same spots of memory that NCCL
     * may know as registered, and at least 2; 0: they lie elsewhere, or it does not matter.
     * An output of SIZE_MAX bytes lies somewhere else on each rank. NULL: it never matters.
     */
    uint64_t (*spot)(void *state, const struct op_set *set, const void *input,
            size_t input_bytes, const void *output, size_t output_bytes);

    /*
     * Records an event behind what is on a stream of the caller now; in the graph, where the
     * stream is being captured. Of such an event nobody may ask whether it has passed.
     * Errors: TUTTI_ERR_INVALID: the stream is of another context, or is being captured and
     * collectives cannot be; TUTTI_ERR_NO_MEMORY.
     */
    tutti_status (*record)(void *state, tutti_stream stream,
            struct device_event **event, bool *captured);

    /*
     * What is put on a stream of the caller from now on waits for an event. Errors: as
     * record(); TUTTI_ERR_INVALID: one of the two is part of a capture, and the other not.
     */
    tutti_status (*follow)(
            void *state, tutti_stream stream, struct device_event *event);

    /*
     * What collectives do on the device from now on comes behind what is on a stream of the
     * caller now. Errors: as record(); no stream may be part of a capture. NULL: the device
     * has no collectives of its own.
     */
    tutti_status (*fence)(void *state, tutti_stream stream);

    /* TUTTI_OK: it has passed. TUTTI_AGAIN: not yet. Errors: the device is lost. */
    tutti_status (*passed)(void *state, struct device_event *event);

    /* Errors: the device is lost, for good. Any thread. */
    tutti_status (*alive)(void *state);

    /* Adds a reference, and takes one away; an event without references may be used again. */
    void (*hold)(void *state, struct device_event *event);
    void (*release)(void *state, struct device_event *event); /* NULL is allowed */

    /*
     * Puts copies on a stream of the device, behind events. *done is the event after them.
     * Host memory is of host_alloc(). Errors: nothing was copied, or the device is lost.
     */
    tutti_status (*copy)(void *state, enum device_way way,
            const struct device_copy *copies, size_t count,
            struct device_event *const *after, size_t after_count,
            struct device_event **done);

    /* Memory of the device, zeroed, 256-byte aligned; NULL: none is left. */
    void *(*alloc)(void *state, size_t bytes);
    /* At once, or when what is issued has passed. NULL is allowed. */
    void (*give_back)(void *state, void *memory);

    /* Pinned host memory on a boundary of 64 bytes, kept for the next; NULL: none. */
    void *(*host_alloc)(void *state, size_t bytes);
    void (*host_give_back)(void *state, void *memory);
};

#endif
