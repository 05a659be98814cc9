/*
 * A device for programs that test tutti on a machine with a GPU: memory that is really the
 * device's, and a stream, through the same table of functions as the library's. Over the
 * simulator they do the same. A call of the driver that fails ends the program with words.
 */
#ifndef TUTTI_TEST_GPU_REAL_DEVICE_H
#define TUTTI_TEST_GPU_REAL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/packing.h"

/** Exit status for "there is nothing to test with". */
#define DEVICE_SKIPPED 77

/** An opened device, current on the thread that opened it. */
struct device_rig {
    struct cuda_driver cuda;
    struct config config; /* of the environment                                     */
    cu_device device;
    cu_context context; /* primary                                                  */
    cu_stream stream; /* non-blocking                                               */
    char name[80]; /* of the device                                                 */
    bool simulated; /* it is test/gpusim                                            */
};

/**
 * Loads the driver; no device is touched.
 * @return 0; DEVICE_SKIPPED after a sentence about what is missing; 2 for a bad environment
 */
int device_find(struct device_rig *rig, const char *program);
/** Takes the device that tutti takes for this local rank. */
void device_open(struct device_rig *rig, int local_rank);
void device_close(struct device_rig *rig);

/** Ends the program unless the driver's call went well. */
void device_must(const struct device_rig *rig, cu_result result, const char *what);
#define DEVICE_MUST(rig, call) device_must((rig), (rig)->cuda.call, #call)

/** Device memory, filled with 0x5a. */
void *device_memory(const struct device_rig *rig, size_t bytes);
void device_drop(const struct device_rig *rig, void *memory);
/** Copies, and waits. */
void device_upload(
        const struct device_rig *rig, void *to, const void *from, size_t bytes);
void device_download(
        const struct device_rig *rig, void *to, const void *from, size_t bytes);

/** An address as the driver wants it. */
cu_pointer device_address(const void *memory);

/**
 * Finds and opens the first device, with tutti's kernels; ended by gpu_close() and device_close().
 * @return 0; DEVICE_SKIPPED after a sentence about what is missing; 2 for a bad environment
 */
int device_kernels(
        struct device_rig *rig, const char *program, struct packing *packing);
/** Launches, or ends the program with words. */
void device_pack(struct packing *packing, const struct packing_work *work);

#endif
