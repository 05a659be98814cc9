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

static bool is_staged(const struct copy *copy)
{
    return copy->from == (uint64_t)(uintptr_t)copy->staged;
}

static void copy_ranges(const void *argument, struct gpusim_accesses *accesses)
{
    const struct copy *copy = argument;

    gpusim_reads(accesses, copy->from, is_staged(copy) ? 0 : copy->bytes);
    gpusim_writes(accesses, copy->to, memory_is_ours(copy->to) ? copy->bytes : 0);
}

static int copy_body(void *argument)
{
    const struct copy *copy = argument;

    gpusim_memory_lock();
    memmove(gpusim_at(copy->to), gpusim_at(copy->from), copy->bytes);
    gpusim_memory_unlock();
    return CUDA_SUCCESS;
}

/* Of which this side must be memory that CUDA knows. */
static int copy(const char *function, uint64_t known, uint64_t to, uint64_t from,
        size_t bytes, struct stream *stream)
{
    const bool from_pageable = !memory_is_ours(from);
    const bool to_pageable = !memory_is_ours(to);
    struct copy *copy;
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
    copy = malloc(sizeof *copy + (from_pageable ? bytes : 0));
    *copy = (struct copy){ .to = to, .from = from, .bytes = bytes };
    if (from_pageable) {
        memcpy(copy->staged, (const void *)(uintptr_t)from, bytes);
        copy->from = (uint64_t)(uintptr_t)copy->staged;
    }
    result = stream_submit(stream,
            op_new(&(struct gpusim_op){ .label = function,
                    .ranges = copy_ranges,
                    .body = copy_body,
                    .dispose = free,
                    .argument = copy }));
    return result == CUDA_SUCCESS && to_pageable ? sim_cuStreamSynchronize(stream)
                                                 : result;
}

/* As with the driver, that is not asynchronous. */
static void count_pageable(const void *host)
{
    if (!memory_is_ours((uint64_t)(uintptr_t)host)) {
        (void)call_count("pageable copy");
    }
}

int sim_cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return bytes > 0 && memory_check("cuMemcpyDtoDAsync_v2", from, bytes) == NULL
            ? CUDA_INVALID_VALUE
            : copy("cuMemcpyDtoDAsync_v2", to, to, from, bytes, stream);
}

int sim_cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    count_pageable(from);
    return copy(
            "cuMemcpyHtoDAsync_v2", to, to, (uint64_t)(uintptr_t)from, bytes, stream);
}

int sim_cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    count_pageable(to);
    return copy(
            "cuMemcpyDtoHAsync_v2", from, (uint64_t)(uintptr_t)to, from, bytes, stream);
}

/* A fill is a copy of so much pageable memory. */
static int fill(const char *function, uint64_t to, const void *value, size_t width,
        size_t count, struct stream *stream)
{
    char *values = malloc(count * width + 1);
    int result = CUDA_INVALID_VALUE;

    for (size_t i = 0; i < count; i++) {
        memcpy(values + i * width, value, width);
    }
    if (to % width == 0) {
        result = copy(
                function, to, to, (uint64_t)(uintptr_t)values, count * width, stream);
    }
    free(values);
    return result;
}

int sim_cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream)
{
    return fill("cuMemsetD8Async", to, &value, 1, count, stream);
}

int sim_cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream)
{
    return fill("cuMemsetD32Async", to, &value, sizeof value, count, stream);
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
    return stream_submit(stream,
            op_new(&(struct gpusim_op){ .label = "cuLaunchHostFunc",
                    .body = host_body,
                    .dispose = free,
                    .argument = call }));
}
