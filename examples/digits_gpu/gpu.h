/*
 * The little of CUDA that the trainer uses: the driver's functions, found at run time, so that
 * one build of the example runs wherever there is a driver. A trainer that links the CUDA
 * runtime does the same with cudaMalloc(), cudaStreamCreate() and kernel<<<...>>>().
 */
#ifndef DIGITS_GPU_GPU_H
#define DIGITS_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels.h"

/** The kernels, by number. */
enum gpu_kernel {
#define NUMBER(name, view) KERNEL_##name,
    DIGITS_KERNELS(NUMBER) GPU_KERNELS
#undef NUMBER
};

/** The driver's functions (gpu.c). */
struct gpu_driver;

/** A device, one stream on it, and the kernels. A zeroed one may be closed. */
struct gpu {
    struct gpu_driver *driver; /* owned                                          */
    int device; /* number of it                                                  */
    bool is_retained; /* its context has been taken                              */
    void *stream; /* a CUstream, which is a cudaStream_t                         */
    void *kernels[GPU_KERNELS]; /* their functions                               */
    char error[256]; /* the first that went wrong; empty: nothing                */
};

/**
 * Opens the device of a local rank: number `local_rank` modulo the devices, as tutti does.
 * @param library  the driver: libcuda.so.1
 * @param image    file with the kernels, as nvcc made it
 * @return false with the reason in gpu->error
 */
bool gpu_open(struct gpu *gpu, const char *library, const char *image, int local_rank);
void gpu_close(struct gpu *gpu);

/*
 * Calls below do nothing once something went wrong: a step can be written down as it is, and
 * gpu_is_well() is asked where it ends.
 */
bool gpu_is_well(const struct gpu *gpu);

/** Device memory, zeroed; freed with gpu_free(). */
void *gpu_alloc(struct gpu *gpu, size_t bytes);
void gpu_free(struct gpu *gpu, void *memory);
/** Pinned host memory: copies from and to it do not wait for the host. */
void *gpu_alloc_host(struct gpu *gpu, size_t bytes);
void gpu_free_host(struct gpu *gpu, void *memory);

/** In stream order. */
void gpu_upload(struct gpu *gpu, void *to, const void *from, size_t bytes);
void gpu_download(struct gpu *gpu, void *to, const void *from, size_t bytes);
void gpu_zero(struct gpu *gpu, void *memory, size_t bytes);
/** @param view  the kernel's parameter, which is copied */
void gpu_launch(struct gpu *gpu, enum gpu_kernel kernel, int items, void *view);

/** Waits for what is on the stream: once an epoch. */
void gpu_wait(struct gpu *gpu);

#endif
