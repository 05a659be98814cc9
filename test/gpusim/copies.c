/*
 * Copies, fills and host functions on streams.
 *
 * Memory that is neither pinned nor a device's is pageable: what is copied from it is taken
 * at the call, and a copy to it ends before the call returns, as with the driver.
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

struct copy {
    uint64_t to;
    uint64_t from;
    size_t bytes;
    char staged[]; /* of pageable memory */
};

struct memory_fill {
    uint64_t to;
    size_t count; /* of elements */
    size_t width; /* bytes each  */
    uint32_t value;
};

static int copy_body(void *argument)
{
    const struct copy *copy = argument;

    memmove(gpusim_at(copy->to), gpusim_at(copy->from), copy->bytes);
    return CUDA_SUCCESS;
}

static struct copy *copy_new(uint64_t to, uint64_t from, size_t bytes, bool staged)
{
    struct copy *copy = malloc(sizeof *copy + (staged ? bytes : 0));

    *copy = (struct copy){ .to = to, .from = from, .bytes = bytes };
    if (staged) {
        memcpy(copy->staged, (const void *)(uintptr_t)from, bytes);
        copy->from = (uint64_t)(uintptr_t)copy->staged;
    }
    return copy;
}

static int fill_body(void *argument)
{
    const struct memory_fill *fill = argument;
    char *to = gpusim_at(fill->to);

    for (size_t i = 0; i < fill->count; i++) {
        memcpy(to + i * fill->width, &fill->value, fill->width);
    }
    return CUDA_SUCCESS;
}

static bool is_pageable(uint64_t address)
{
    return arena_of(address) == NULL;
}

/* A side of a copy that must be the device's, or must not be. */
enum side {
    SIDE_DEVICE, /* any memory that CUDA knows: one address space */
    SIDE_HOST, /* pageable, pinned or managed                   */
    SIDE_ANY
};

static int check_side(
        const char *function, enum side side, uint64_t address, size_t bytes)
{
    const struct arena *arena = arena_of(address);

    if (arena == NULL) {
        return side == SIDE_DEVICE || address == 0 ? CUDA_INVALID_VALUE : CUDA_SUCCESS;
    }
    if (side == SIDE_HOST && arena->kind == ARENA_DEVICE) {
        return CUDA_INVALID_VALUE;
    }
    return memory_check(function, address, bytes);
}

struct transfer {
    const char *function;
    uint64_t to, from;
    size_t bytes;
    enum side to_side, from_side;
    bool waits; /* the call without a stream, which ends when the copy has */
};

static int transfer_submit(const struct transfer *transfer, struct stream *stream)
{
    bool from_pageable = is_pageable(transfer->from);
    bool to_pageable = is_pageable(transfer->to);
    struct op *op;
    int result;

    sim.pageable_copies += !transfer->waits && (from_pageable || to_pageable) ? 1 : 0;
    op = op_new(transfer->function, OP_PLAIN);
    if (!from_pageable) {
        gpusim_reads(op_accesses(op), transfer->from, transfer->bytes);
    }
    if (!to_pageable) {
        gpusim_writes(op_accesses(op), transfer->to, transfer->bytes);
    }
    op->body = copy_body;
    op->dispose = free;
    op->argument =
            copy_new(transfer->to, transfer->from, transfer->bytes, from_pageable);
    if ((to_pageable || transfer->waits) && stream->capture != NULL) {
        op_free(op);
        return capture_refuses_waiting(stream);
    }
    result = stream_submit(stream, op);
    if (result == CUDA_SUCCESS && (to_pageable || transfer->waits)) {
        result = stream_synchronize(stream);
    }
    return result;
}

static int transfer_call(const struct transfer *transfer, void *handle)
{
    int result = sim_enter(transfer->function,
            transfer->waits ? NEEDS_CONTEXT | NEEDS_NO_CAPTURE : NEEDS_CONTEXT);
    struct stream *stream;

    if (result == CUDA_SUCCESS) {
        result = stream_find(handle, &stream);
    }
    if (result == CUDA_SUCCESS && transfer->bytes == 0) {
        return sim_leave(result);
    }
    if (result == CUDA_SUCCESS) {
        result = check_side(
                transfer->function, transfer->to_side, transfer->to, transfer->bytes);
    }
    if (result == CUDA_SUCCESS) {
        result = check_side(transfer->function, transfer->from_side, transfer->from,
                transfer->bytes);
    }
    if (result == CUDA_SUCCESS) {
        result = transfer_submit(transfer, stream);
    }
    return sim_leave(result);
}

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return transfer_call(
            &(struct transfer){
                    .function = "cuMemcpyAsync",
                    .to = to,
                    .from = from,
                    .bytes = bytes,
                    .to_side = SIDE_ANY,
                    .from_side = SIDE_ANY,
            },
            stream);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return transfer_call(
            &(struct transfer){
                    .function = "cuMemcpyDtoDAsync_v2",
                    .to = to,
                    .from = from,
                    .bytes = bytes,
                    .to_side = SIDE_DEVICE,
                    .from_side = SIDE_DEVICE,
            },
            stream);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    return transfer_call(
            &(struct transfer){
                    .function = "cuMemcpyHtoDAsync_v2",
                    .to = to,
                    .from = address_of(from),
                    .bytes = bytes,
                    .to_side = SIDE_DEVICE,
                    .from_side = SIDE_HOST,
            },
            stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    return transfer_call(
            &(struct transfer){
                    .function = "cuMemcpyDtoHAsync_v2",
                    .to = address_of(to),
                    .from = from,
                    .bytes = bytes,
                    .to_side = SIDE_HOST,
                    .from_side = SIDE_DEVICE,
            },
            stream);
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    return transfer_call(
            &(struct transfer){
                    .function = "cuMemcpyHtoD_v2",
                    .to = to,
                    .from = address_of(from),
                    .bytes = bytes,
                    .to_side = SIDE_DEVICE,
                    .from_side = SIDE_HOST,
                    .waits = true,
            },
            NULL);
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    return transfer_call(
            &(struct transfer){
                    .function = "cuMemcpyDtoH_v2",
                    .to = address_of(to),
                    .from = from,
                    .bytes = bytes,
                    .to_side = SIDE_HOST,
                    .from_side = SIDE_DEVICE,
                    .waits = true,
            },
            NULL);
}

static int fill_submit(
        const char *function, const struct memory_fill *fill, struct stream *stream)
{
    size_t bytes = fill->count * fill->width;
    struct memory_fill *argument;
    struct op *op;
    int result = check_side(function, SIDE_DEVICE, fill->to, bytes);

    if (result != CUDA_SUCCESS || bytes == 0) {
        return result;
    }
    if (fill->to % fill->width != 0) {
        return CUDA_INVALID_VALUE;
    }
    argument = malloc(sizeof *argument);
    *argument = *fill;
    op = op_new(function, OP_PLAIN);
    gpusim_writes(op_accesses(op), fill->to, bytes);
    op->body = fill_body;
    op->dispose = free;
    op->argument = argument;
    return stream_submit(stream, op);
}

static int fill_call(const char *function, const struct memory_fill *fill, void *handle)
{
    struct stream *stream;
    int result = stream_enter(function, handle, &stream);

    if (result == CUDA_SUCCESS) {
        result = fill_submit(function, fill, stream);
    }
    return sim_leave(result);
}

int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count)
{
    return fill_call("cuMemsetD8_v2",
            &(struct memory_fill){
                    .to = to, .count = count, .width = 1, .value = value },
            NULL);
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream)
{
    return fill_call("cuMemsetD8Async",
            &(struct memory_fill){
                    .to = to, .count = count, .width = 1, .value = value },
            stream);
}

int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream)
{
    return fill_call("cuMemsetD32Async",
            &(struct memory_fill){
                    .to = to, .count = count, .width = 4, .value = value },
            stream);
}

struct host_call {
    void (*function)(void *);
    void *argument;
};

static int host_body(void *argument)
{
    const struct host_call *call = argument;

    callback_begin();
    call->function(call->argument);
    callback_end();
    return CUDA_SUCCESS;
}

int cuLaunchHostFunc(void *stream, void (*function)(void *), void *argument)
{
    struct stream *found;
    int result = stream_enter("cuLaunchHostFunc", stream, &found);

    if (result == CUDA_SUCCESS && function == NULL) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        struct op *op = op_new("cuLaunchHostFunc", OP_OUTSIDE);
        struct host_call *call = malloc(sizeof *call);

        *call = (struct host_call){ .function = function, .argument = argument };
        op->body = host_body;
        op->dispose = free;
        op->argument = call;
        result = stream_submit(found, op);
    }
    return sim_leave(result);
}
