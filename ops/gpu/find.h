/*
 * What there is for GPUs on this machine: the driver, its devices and NCCL, or one sentence
 * why not. Looking makes no context on any device.
 */
#ifndef TUTTI_OPS_GPU_FIND_H
#define TUTTI_OPS_GPU_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "base/error.h"
#include "ops/gpu/driver.h"
#include "ops/gpu/nccl.h"

/** A device, as the driver describes it. */
struct gpu_device_facts {
    int ordinal; /* as the driver counts what CUDA_VISIBLE_DEVICES leaves       */
    cu_device device; /* its handle                                             */
    char name[80]; /* of the product                                            */
    char pci[GPU_PCI_MAX]; /* domain, bus, device and function, lower case      */
    char uuid[GPU_UUID_MAX]; /* "GPU-", then groups of 8, 4, 4, 4 and 12 digits */
    int sm_count; /* multiprocessors                                            */
    size_t memory_bytes; /* of all its memory                                   */
    size_t l2_bytes; /* of its second-level cache                               */
    int capability_major; /* 9 of 9.0                                           */
    int capability_minor; /* 0 of 9.0                                           */
};

/** Devices of a process that are looked at; machines have 16. */
#define GPU_DEVICES_MAX 64

/** What there is. Some 20 KiB. */
struct gpu_found {
    bool has_driver; /* and at least one device                                */
    struct cuda_driver cuda; /* when has_driver                                */
    struct gpu_device_facts devices[GPU_DEVICES_MAX];
    int device_count; /* of devices; at most GPU_DEVICES_MAX                   */
    char no_driver[ERROR_TEXT_MAX]; /* why not, when not has_driver            */
    bool has_nccl; /* it was looked for only when has_driver                   */
    struct nccl_api nccl; /* when has_nccl                                     */
    char no_nccl[ERROR_TEXT_MAX]; /* why not, when not has_nccl                */
};

/**
 * Looks, with config's cuda_library and nccl_library; gpu=off finds nothing and loads
 * nothing. Any thread. Nothing is to be released.
 */
void gpu_find(const struct config *config, struct gpu_found *found);

/**
 * Reads the facts of the ordinal-th device.
 * @return TUTTI_OK; TUTTI_ERR_SYSTEM: the driver does not tell them; words say which
 */
TUTTI_MUST_USE tutti_status gpu_device_read(
        const struct cuda_driver *cuda, int ordinal, struct gpu_device_facts *facts);

/** True when the kernels for GPUs are part of this library. */
bool gpu_has_kernels(void);

/**
 * Writes what was found for people, as lines of at least one word each.
 * @return false when it was cut at `capacity` bytes, the terminating zero included
 */
bool gpu_describe(const struct config *config, const struct gpu_found *found,
        char *text, size_t capacity);

#endif
