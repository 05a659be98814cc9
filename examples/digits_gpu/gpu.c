#include "gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAM_NON_BLOCKING = 1,
    IMAGE_BYTES_MAX = 16 << 20
};

/* The functions: X(field, symbol, parameters). A CUresult is an int, a CUdeviceptr 64 bits. */
#define DRIVER(X) \
    X(init, cuInit, (unsigned flags)) \
    X(error_text, cuGetErrorString, (int error, const char **text)) \
    X(device_count, cuDeviceGetCount, (int *count)) \
    X(retain, cuDevicePrimaryCtxRetain, (void **context, int device)) \
    X(release, cuDevicePrimaryCtxRelease_v2, (int device)) \
    X(set_current, cuCtxSetCurrent, (void *context)) \
    X(alloc, cuMemAlloc_v2, (uint64_t * memory, size_t bytes)) \
    X(free, cuMemFree_v2, (uint64_t memory)) \
    X(alloc_host, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags)) \
    X(free_host, cuMemFreeHost, (void *memory)) \
    X(upload, cuMemcpyHtoDAsync_v2, \
            (uint64_t to, const void *from, size_t bytes, void *stream)) \
    X(download, cuMemcpyDtoHAsync_v2, \
            (void *to, uint64_t from, size_t bytes, void *stream)) \
    X(fill, cuMemsetD8Async, \
            (uint64_t to, unsigned char value, size_t bytes, void *stream)) \
    X(stream_create, cuStreamCreate, (void **stream, unsigned flags)) \
    X(stream_destroy, cuStreamDestroy_v2, (void *stream)) \
    X(stream_wait, cuStreamSynchronize, (void *stream)) \
    X(load, cuModuleLoadData, (void **module, const void *image)) \
    X(find, cuModuleGetFunction, (void **function, void *module, const char *name)) \
    X(launch, cuLaunchKernel, \
            (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
                    unsigned block_x, unsigned block_y, unsigned block_z, \
                    unsigned shared, void *stream, void **parameters, void **extra))

/* NOLINTBEGIN(bugprone-macro-parentheses): declarations are no expressions */
struct gpu_driver {
#define FIELD(field, symbol, parameters) int(*field) parameters;
    DRIVER(FIELD)
#undef FIELD
};
/* NOLINTEND(bugprone-macro-parentheses) */

/** A function of the driver, and its place in struct gpu_driver. */
struct symbol {
    const char *name;
    size_t offset;
};

static const struct symbol symbols[] = {
#define SYMBOL(field, symbol, parameters) \
    { #symbol, offsetof(struct gpu_driver, field) },
    DRIVER(SYMBOL)
#undef SYMBOL
};

/* Remembers the first error. Returns true when there is none. */
static bool check(struct gpu *gpu, int result, const char *what)
{
    const char *text = "unknown error";

    if (result == 0) {
        return true;
    }
    (void)gpu->driver->error_text(result, &text);
    (void)snprintf(gpu->error, sizeof gpu->error, "cannot %s: %s", what, text);
    return false;
}

bool gpu_is_well(const struct gpu *gpu)
{
    return gpu->error[0] == '\0';
}

/* --------------------------------------------------------------------------- opening */

/* Its functions; false when the library lacks one. */
static bool find_functions(struct gpu *gpu, void *library)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(library, symbols[i].name);

        if (found == NULL) {
            (void)snprintf(gpu->error, sizeof gpu->error, "the CUDA driver lacks %s",
                    symbols[i].name);
            return false;
        }
        memcpy((char *)gpu->driver + symbols[i].offset, &found, sizeof found);
    }
    return true;
}

static bool load_driver(struct gpu *gpu, const char *name)
{
    /* never closed: a driver has threads of its own */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        (void)snprintf(gpu->error, sizeof gpu->error, "there is no CUDA driver: %s",
                dlerror()); /* NOLINT(concurrency-mt-unsafe): there is one thread */
        return false;
    }
    gpu->driver = calloc(1, sizeof *gpu->driver);
    if (gpu->driver == NULL) {
        (void)snprintf(gpu->error, sizeof gpu->error, "out of memory");
        return false;
    }
    return find_functions(gpu, library) &&
            check(gpu, gpu->driver->init(0), "start the CUDA driver");
}

/* tutti works in the primary context, which is the CUDA runtime's. */
static bool open_device(struct gpu *gpu, int local_rank)
{
    void *context = NULL;
    int count = 0;

    if (!check(gpu, gpu->driver->device_count(&count), "count devices")) {
        return false;
    }
    if (count == 0) {
        (void)snprintf(gpu->error, sizeof gpu->error, "there is no GPU");
        return false;
    }
    gpu->device = local_rank % count;
    gpu->is_retained =
            check(gpu, gpu->driver->retain(&context, gpu->device), "open the GPU");
    return gpu->is_retained &&
            check(gpu, gpu->driver->set_current(context), "use the GPU") &&
            check(gpu, gpu->driver->stream_create(&gpu->stream, STREAM_NON_BLOCKING),
                    "make a stream");
}

static bool read_image(struct gpu *gpu, const char *path, char *image)
{
    FILE *file = fopen(path, "rb");
    size_t bytes = 0;

    if (file != NULL) {
        bytes = fread(image, 1, IMAGE_BYTES_MAX - 1, file);
        (void)fclose(file);
    }
    if (bytes == 0) {
        (void)snprintf(gpu->error, sizeof gpu->error,
                "cannot read kernels from %.150s: was the build without nvcc?", path);
    }
    return bytes > 0;
}

static bool load_kernels(struct gpu *gpu, const char *path)
{
    static const char *const names[GPU_KERNELS] = {
#define NAME(name, view) [KERNEL_##name] = "digits_" #name,
        DIGITS_KERNELS(NAME)
#undef NAME
    };
    char *image = calloc(1, IMAGE_BYTES_MAX);
    void *module = NULL;
    bool good = image != NULL && read_image(gpu, path, image) &&
            check(gpu, gpu->driver->load(&module, image), "load the kernels");

    for (int i = 0; i < GPU_KERNELS && good; i++) {
        good = check(
                gpu, gpu->driver->find(&gpu->kernels[i], module, names[i]), names[i]);
    }
    free(image);
    return good;
}

bool gpu_open(struct gpu *gpu, const char *library, const char *image, int local_rank)
{
    *gpu = (struct gpu){ .driver = NULL };
    return load_driver(gpu, library) && open_device(gpu, local_rank) &&
            load_kernels(gpu, image);
}

void gpu_close(struct gpu *gpu)
{
    if (gpu->stream != NULL) {
        (void)gpu->driver->stream_destroy(gpu->stream);
    }
    if (gpu->is_retained) {
        (void)gpu->driver->set_current(NULL);
        (void)gpu->driver->release(gpu->device);
    }
    free(gpu->driver);
    *gpu = (struct gpu){ .driver = NULL };
}

/* ---------------------------------------------------------------------------- memory */

static uint64_t address(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

void *gpu_alloc(struct gpu *gpu, size_t bytes)
{
    uint64_t memory = 0;

    if (gpu_is_well(gpu)) {
        (void)check(gpu, gpu->driver->alloc(&memory, bytes), "allocate device memory");
    }
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): that is what the driver calls it */
    gpu_zero(gpu, (void *)(uintptr_t)memory, bytes);
    return (void *)(uintptr_t)memory; /* NOLINT(performance-no-int-to-ptr) */
}

void gpu_free(struct gpu *gpu, void *memory)
{
    if (memory != NULL) {
        (void)gpu->driver->free(address(memory));
    }
}

void *gpu_alloc_host(struct gpu *gpu, size_t bytes)
{
    void *memory = NULL;

    if (gpu_is_well(gpu)) {
        (void)check(gpu, gpu->driver->alloc_host(&memory, bytes, 0),
                "allocate pinned memory");
    }
    return memory;
}

void gpu_free_host(struct gpu *gpu, void *memory)
{
    if (memory != NULL) {
        (void)gpu->driver->free_host(memory);
    }
}

/* ----------------------------------------------------------------------- on the stream */

void gpu_upload(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    if (gpu_is_well(gpu) && bytes > 0) {
        (void)check(gpu, gpu->driver->upload(address(to), from, bytes, gpu->stream),
                "copy to the GPU");
    }
}

void gpu_download(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
    if (gpu_is_well(gpu) && bytes > 0) {
        (void)check(gpu, gpu->driver->download(to, address(from), bytes, gpu->stream),
                "copy from the GPU");
    }
}

void gpu_zero(struct gpu *gpu, void *memory, size_t bytes)
{
    if (gpu_is_well(gpu)) {
        (void)check(gpu, gpu->driver->fill(address(memory), 0, bytes, gpu->stream),
                "zero device memory");
    }
}

void gpu_launch(struct gpu *gpu, enum gpu_kernel kernel, int items, void *view)
{
    const unsigned blocks = ((unsigned)items + KERNEL_BLOCK - 1) / KERNEL_BLOCK;
    void *parameters[] = { view };

    if (gpu_is_well(gpu) && items > 0) {
        (void)check(gpu,
                gpu->driver->launch(gpu->kernels[kernel], blocks, 1, 1, KERNEL_BLOCK, 1,
                        1, 0, gpu->stream, parameters, NULL),
                "launch a kernel");
    }
}

void gpu_wait(struct gpu *gpu)
{
    if (gpu_is_well(gpu)) {
        (void)check(gpu, gpu->driver->stream_wait(gpu->stream), "wait for the GPU");
    }
}
