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

/* A side of a copy: memory that CUDA knows (one address space), or any but a device's. */
enum side {
    SIDE_DEVICE,
    SIDE_HOST
};

static int check_side(
        const char *function, enum side side, uint64_t address, size_t bytes)
{
    const struct allocation *allocation = memory_find(address);

    if (allocation == NULL) {
        return side == SIDE_DEVICE || address == 0 ? CUDA_INVALID_VALUE : CUDA_SUCCESS;
    }
    if (side == SIDE_HOST && allocation->kind == MEMORY_DEVICE) {
        return CUDA_INVALID_VALUE;
    }
    return memory_check(function, address, bytes) == NULL ? CUDA_INVALID_VALUE
                                                          : CUDA_SUCCESS;
}

static int copy_body(void *argument)
{
    const struct copy *copy = argument;

    gpusim_memory_lock();
    memmove(gpusim_at(copy->to), gpusim_at(copy->from), copy->bytes);
    gpusim_memory_unlock();
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

static int copy_submit(const char *function, uint64_t to, uint64_t from, size_t bytes,
        struct stream *stream)
{
    const bool from_pageable = memory_find(from) == NULL;
    const bool to_pageable = memory_find(to) == NULL;
    struct op *op;
    int result;

    if (to_pageable && stream->capture != NULL) {
        return capture_refuses_waiting(stream);
    }
    sim.pageable_copies += from_pageable || to_pageable ? 1 : 0;
    op = op_new(function, copy_body, copy_new(to, from, bytes, from_pageable));
    op->dispose = free;
    gpusim_reads(&op->accesses, from, from_pageable ? 0 : bytes);
    gpusim_writes(&op->accesses, to, to_pageable ? 0 : bytes);
    result = stream_submit(stream, op);
    return result == CUDA_SUCCESS && to_pageable ? stream_synchronize(stream) : result;
}

/* The sides as the function says. */
static const struct direction {
    const char *function;
    enum side to, from;
} within = { "cuMemcpyDtoDAsync_v2", SIDE_DEVICE, SIDE_DEVICE },
  inwards = { "cuMemcpyHtoDAsync_v2", SIDE_DEVICE, SIDE_HOST },
  outwards = { "cuMemcpyDtoHAsync_v2", SIDE_HOST, SIDE_DEVICE };

static int copy(const struct direction *direction, uint64_t to, uint64_t from,
        size_t bytes, struct stream *stream)
{
    int result;

    if (bytes == 0) {
        return CUDA_SUCCESS;
    }
    result = check_side(direction->function, direction->to, to, bytes);
    if (result == CUDA_SUCCESS) {
        result = check_side(direction->function, direction->from, from, bytes);
    }
    return result == CUDA_SUCCESS
            ? copy_submit(direction->function, to, from, bytes, stream)
            : result;
}

int sim_cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return copy(&within, to, from, bytes, stream);
}

int sim_cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    return copy(&inwards, to, (uint64_t)(uintptr_t)from, bytes, stream);
}

int sim_cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    return copy(&outwards, (uint64_t)(uintptr_t)to, from, bytes, stream);
}

static int fill_body(void *argument)
{
    const struct memory_fill *fill = argument;
    char *to = gpusim_at(fill->to);

    gpusim_memory_lock();
    for (size_t i = 0; i < fill->count; i++) {
        memcpy(to + i * fill->width, &fill->value, fill->width);
    }
    gpusim_memory_unlock();
    return CUDA_SUCCESS;
}

static int fill(const char *function, struct memory_fill fill, struct stream *stream)
{
    const size_t bytes = fill.count * fill.width;
    struct memory_fill *argument;
    struct op *op;
    int result;

    if (bytes == 0) {
        return CUDA_SUCCESS;
    }
    result = fill.to % fill.width != 0
            ? CUDA_INVALID_VALUE
            : check_side(function, SIDE_DEVICE, fill.to, bytes);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    argument = malloc(sizeof *argument);
    *argument = fill;
    op = op_new(function, fill_body, argument);
    op->dispose = free;
    gpusim_writes(&op->accesses, fill.to, bytes);
    return stream_submit(stream, op);
}

int sim_cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream)
{
    return fill("cuMemsetD8Async", (struct memory_fill){ to, count, 1, value }, stream);
}

int sim_cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream)
{
    return fill(
            "cuMemsetD32Async", (struct memory_fill){ to, count, 4, value }, stream);
}

struct host_call {
    void (*function)(void *);
    void *argument;
};

static int host_body(void *argument)
{
    const struct host_call *call = argument;

    call->function(call->argument);
    return CUDA_SUCCESS;
}

int sim_cuLaunchHostFunc(void *stream, void (*function)(void *), void *argument)
{
    struct host_call *call = malloc(sizeof *call);
    struct op *op = op_new("cuLaunchHostFunc", host_body, call);

    *call = (struct host_call){ .function = function, .argument = argument };
    op->dispose = free;
    return stream_submit(stream, op);
}
