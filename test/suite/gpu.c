/*
 * The simulated GPU, loaded.
 */
#include "test/suite/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/pattern.h"
#include "test/batch/reference.h"
#include "test/gpusim/cuda.h"
#include "test/gpusim/gpusim_test.h"

#define STREAM_NON_BLOCKING 1U

/* What is called of the driver, and of the simulator itself. */
#define CALLS(CALL) \
    CALL(init, cuInit) \
    CALL(retain, cuDevicePrimaryCtxRetain) \
    CALL(release, cuDevicePrimaryCtxRelease_v2) \
    CALL(set_current, cuCtxSetCurrent) \
    CALL(stream_create, cuStreamCreate) \
    CALL(stream_destroy, cuStreamDestroy_v2) \
    CALL(stream_synchronize, cuStreamSynchronize) \
    CALL(alloc, cuMemAlloc_v2) \
    CALL(free, cuMemFree_v2) \
    CALL(copy_in, cuMemcpyHtoDAsync_v2) \
    CALL(write, gpusim_write) \
    CALL(read, gpusim_read) \
    CALL(device_of, gpusim_pointer_device)

#define DECLARE(field, symbol) __typeof__(&symbol) field;
struct driver {
    CALLS(DECLARE)
};
#undef DECLARE

static struct driver driver;
static const char *nccl_used; /* NULL: no GPU is */

/* Of the calling thread. */
static _Thread_local int device = -1;
static _Thread_local void *stream_of_thread;
static _Thread_local uint64_t coin;
static _Thread_local uint64_t tosses;

static void check(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "the simulated GPU: %s failed\n", what);
        abort();
    }
}

static void load(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    check(found != NULL, name);
    memcpy(function, &found, sizeof found);
}

void suite_gpu_begin(const char *cuda, const char *nccl, int ranks)
{
    char count[16];
    void *library;

    (void)snprintf(count, sizeof count, "%d", ranks);
    (void)setenv("GPUSIM_DEVICES", count, 1);
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    (void)setenv("TUTTI_CUDA_LIBRARY", cuda, 1);
    (void)setenv("TUTTI_NCCL_LIBRARY", nccl, 1);
    library = dlopen(cuda, RTLD_NOW | RTLD_LOCAL);
    check(library != NULL, cuda);
#define LOAD(field, symbol) load(library, #symbol, &driver.field);
    CALLS(LOAD)
#undef LOAD
    check(driver.init(0) == 0, "cuInit");
    nccl_used = nccl;
}

bool suite_gpu_is_used(void)
{
    return nccl_used != NULL;
}

bool suite_gpu_has_nccl(void)
{
    return suite_gpu_is_used() && strcmp(nccl_used, "none") != 0;
}

static void leave(void)
{
    check(driver.stream_destroy(stream_of_thread) == 0, "cuStreamDestroy");
    check(driver.set_current(NULL) == 0, "cuCtxSetCurrent");
    check(driver.release(device) == 0, "cuDevicePrimaryCtxRelease");
    device = -1;
    reference_set_folds(false);
}

void suite_gpu_enter(tutti *t)
{
    void *memory = NULL;
    void *context = NULL;

    if (device >= 0) {
        leave();
    }
    if (t == NULL || !suite_gpu_is_used()) {
        return;
    }
    /* Which device a context has is asked of its memory. */
    check(tutti_alloc(t, 1, TUTTI_DEVICE, &memory) == TUTTI_OK, tutti_last_error());
    device = driver.device_of((uint64_t)(uintptr_t)memory);
    check(device >= 0, "device of tutti_alloc()");
    check(tutti_free(t, memory) == TUTTI_OK, tutti_last_error());
    check(driver.retain(&context, device) == 0, "cuDevicePrimaryCtxRetain");
    check(driver.set_current(context) == 0, "cuCtxSetCurrent");
    check(driver.stream_create(&stream_of_thread, STREAM_NON_BLOCKING) == 0,
            "cuStreamCreate");
    reference_set_folds(suite_gpu_has_nccl());
}

bool suite_gpu_is_entered(void)
{
    return device >= 0;
}

void *suite_gpu_stream(void)
{
    return stream_of_thread;
}

void suite_gpu_synchronize(void)
{
    check(driver.stream_synchronize(stream_of_thread) == 0, "cuStreamSynchronize");
}

void *suite_gpu_alloc(size_t bytes)
{
    uint64_t memory = 0;

    check(driver.alloc(&memory, bytes) == 0, "cuMemAlloc");
    return (void *)(uintptr_t)memory;
}

void suite_gpu_free(void *memory)
{
    check(driver.free((uint64_t)(uintptr_t)memory) == 0, "cuMemFree");
}

bool suite_gpu_owns(const void *memory)
{
    return suite_gpu_is_used() && driver.device_of((uint64_t)(uintptr_t)memory) >= 0;
}

void suite_gpu_write(void *to, const void *from, size_t bytes, void *stream)
{
    const uint64_t address = (uint64_t)(uintptr_t)to;

    if (bytes == 0) {
        return;
    }
    if (stream != NULL) {
        check(driver.copy_in(address, from, bytes, stream) == 0, "cuMemcpyHtoDAsync");
    } else {
        check(driver.write(address, from, bytes), "writing device memory");
    }
}

void suite_gpu_see(const void *from, size_t bytes)
{
    void *seen;

    if (bytes == 0) {
        return;
    }
    seen = must_alloc(bytes, 1);
    check(driver.read(seen, (uint64_t)(uintptr_t)from, bytes), "reading device memory");
    free(seen);
}

void suite_gpu_toss_from(uint64_t seed)
{
    coin = seed;
    tosses = 0;
}

bool suite_gpu_toss(void)
{
    return suite_gpu_is_entered() && pattern_mix(coin, tosses++) % 2 == 0;
}

tutti_status suite_gpu_wait(tutti *t, tutti_request *request)
{
    tutti_status status;

    if (!suite_gpu_toss()) {
        return tutti_wait(t, request, TUTTI_FOREVER);
    }
    status = tutti_wait_stream(t, request, stream_of_thread, TUTTI_FOREVER);
    suite_gpu_synchronize();
    return status;
}
