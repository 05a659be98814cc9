/*
 * What the tests of the simulated GPU share: a context to work in, and memory with a pattern.
 */
#ifndef TUTTI_TEST_GPUSIM_GPU_H
#define TUTTI_TEST_GPUSIM_GPU_H

#include <string.h>

#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"
#include "test/unit/unit.h"

/* Makes the device's primary context current; each test ends with gpu_close(). */
static inline void *gpu_open(int device)
{
    void *context = NULL;

    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    return context;
}

static inline void gpu_close(int device)
{
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(device), 0);
}

static inline uint64_t gpu_alloc(size_t bytes)
{
    uint64_t pointer = 0;

    assert_int_equal(cuMemAlloc_v2(&pointer, bytes), 0);
    return pointer;
}

static inline void *gpu_stream(void)
{
    void *stream = NULL;

    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    return stream;
}

static inline void *gpu_event(void)
{
    void *event = NULL;

    assert_int_equal(cuEventCreate(&event, 2), 0);
    return event;
}

/* Waits with cuStreamSynchronize. */
static inline void gpu_wait(void *stream)
{
    assert_int_equal(cuStreamSynchronize(stream), 0);
}

#endif
