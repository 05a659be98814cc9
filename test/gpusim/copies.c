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

/* Of which this side must be memory that CUDA knows. */
static int copy(const char *function, uint64_t known, uint64_t to, uint64_t from,
        size_t bytes, struct stream *stream)
{
    const bool from_pageable = memory_find(from) == NULL;
    const bool to_pageable = memory_find(to) == NULL;
    struct op *op;
    int result;

    if (bytes == 0) {
        return CUDA_SUCCESS;
    }
    if (memory_check(function, known, bytes) == NULL) {
        return CUDA_INVALID_VALUE;
    }
    if (to_pageable && stream->capture != NULL) {
        return capture_refuses_waiting(stream);
    }
    sim.pageable_copies += from_pageable || to_pageable ? 1 : 0;
    op = op_new(function, copy_body, copy_new(to, from, bytes, from_pageable), free);
    gpusim_reads(&op->accesses, from, from_pageable ? 0 : bytes);
    gpusim_writes(&op->accesses, to, to_pageable ? 0 : bytes);
    result = stream_submit(stream, op);
    return result == CUDA_SUCCESS && to_pageable ? sim_cuStreamSynchronize(stream)
                                                 : result;
}

int sim_cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return bytes > 0 && memory_check("cuMemcpyDtoDAsync_v2", from, bytes) == NULL
            ? CUDA_INVALID_VALUE
            : copy("cuMemcpyDtoDAsync_v2", to, to, from, bytes, stream);
}

int sim_cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    return copy(
            "cuMemcpyHtoDAsync_v2", to, to, (uint64_t)(uintptr_t)from, bytes, stream);
}

int sim_cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    return copy(
            "cuMemcpyDtoHAsync_v2", from, (uint64_t)(uintptr_t)to, from, bytes, stream);
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

    if (bytes == 0) {
        return CUDA_SUCCESS;
    }
    if (fill.to % fill.width != 0 || memory_check(function, fill.to, bytes) == NULL) {
        return CUDA_INVALID_VALUE;
    }
    argument = malloc(sizeof *argument);
    *argument = fill;
    op = op_new(function, fill_body, argument, free);
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

    *call = (struct host_call){ .function = function, .argument = argument };
    return stream_submit(stream, op_new("cuLaunchHostFunc", host_body, call, free));
}
