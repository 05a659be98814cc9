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

/* A side of a copy: memory that CUDA knows (one address space), or any but a device's. */
enum side {
    SIDE_DEVICE,
    SIDE_HOST
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

static int transfer_submit(const char *function, uint64_t to, uint64_t from,
        size_t bytes, struct stream *stream)
{
    bool from_pageable = is_pageable(from);
    bool to_pageable = is_pageable(to);
    struct op *op;
    int result;

    if (to_pageable && stream->capture != NULL) {
        return capture_refuses_waiting(stream);
    }
    sim.pageable_copies += from_pageable || to_pageable ? 1 : 0;
    op = op_new(function, OP_PLAIN);
    if (!from_pageable) {
        gpusim_reads(&op->accesses, from, bytes);
    }
    if (!to_pageable) {
        gpusim_writes(&op->accesses, to, bytes);
    }
    op->body = copy_body;
    op->dispose = free;
    op->argument = copy_new(to, from, bytes, from_pageable);
    result = stream_submit(stream, op);
    return result == CUDA_SUCCESS && to_pageable ? stream_synchronize(stream) : result;
}

/* What is copied: its sides, as the function says. */
struct transfer {
    const char *function;
    enum side to_side, from_side;
};

static int transfer_call(const struct transfer *t, uint64_t to, uint64_t from,
        size_t bytes, void *handle)
{
    struct stream *stream;
    int result = stream_enter(t->function, handle, &stream);

    if (result != CUDA_SUCCESS || bytes == 0) {
        return sim_leave(result);
    }
    result = check_side(t->function, t->to_side, to, bytes);
    if (result == CUDA_SUCCESS) {
        result = check_side(t->function, t->from_side, from, bytes);
    }
    if (result == CUDA_SUCCESS) {
        result = transfer_submit(t->function, to, from, bytes, stream);
    }
    return sim_leave(result);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    static const struct transfer t = { "cuMemcpyDtoDAsync_v2", SIDE_DEVICE,
        SIDE_DEVICE };

    return transfer_call(&t, to, from, bytes, stream);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    static const struct transfer t = { "cuMemcpyHtoDAsync_v2", SIDE_DEVICE, SIDE_HOST };

    return transfer_call(&t, to, (uint64_t)(uintptr_t)from, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    static const struct transfer t = { "cuMemcpyDtoHAsync_v2", SIDE_HOST, SIDE_DEVICE };

    return transfer_call(&t, (uint64_t)(uintptr_t)to, from, bytes, stream);
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
    gpusim_writes(&op->accesses, fill->to, bytes);
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

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream)
{
    const struct memory_fill fill = { to, count, 1, value };

    return fill_call("cuMemsetD8Async", &fill, stream);
}

int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream)
{
    const struct memory_fill fill = { to, count, 4, value };

    return fill_call("cuMemsetD32Async", &fill, stream);
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

int cuLaunchHostFunc(void *stream, void (*function)(void *), void *argument)
{
    struct stream *found;
    int result = stream_enter("cuLaunchHostFunc", stream, &found);

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
