/*
 * The GPUs of a machine, found on the PCI bus: no CUDA or ROCm is needed.
 */
#ifndef TUTTI_LAUNCHER_BIND_HOST_GPUS_H
#define TUTTI_LAUNCHER_BIND_HOST_GPUS_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

enum {
    GPUS_MAX = 64, /* of one machine; more are not looked at               */
    GPU_BUS_MAX = 24, /* bytes of a PCI address with its zero                 */
    GPU_UUID_MAX = 64 /* bytes of "GPU-..." with its zero                     */
};

enum gpu_vendor {
    GPU_NVIDIA,
    GPU_AMD
};

struct gpu {
    char bus[GPU_BUS_MAX]; /* "0000:59:00.0"                                     */
    char uuid[GPU_UUID_MAX]; /* "GPU-..."; "": unknown                           */
    hwloc_const_cpuset_t
            near; /* cpus that it is attached to, of the topology; NULL: the
                                  machine does not say */
};

/** All of one vendor, in the order of their PCI addresses. */
struct gpus {
    enum gpu_vendor vendor; /* of all of them; AMD only where there is no NVIDIA */
    size_t count;
    struct gpu items[GPUS_MAX];
};

/** Finds them in a topology that was loaded with its important I/O devices. */
void gpus_find(struct gpus *gpus, hwloc_topology_t topology);

/**
 * Reads what NVIDIA's driver says of them: UUIDs, and which of them this container has.
 * Without the folder nothing changes.
 * @param folder  /proc/driver/nvidia/gpus, or a test's
 */
void gpus_read_driver(struct gpus *gpus, const char *folder);

/*
 * Which GPUs the ranks of a host see, and in which order, from CUDA_VISIBLE_DEVICES and its like: lists of
 * indices, prefixes of UUIDs, and parts of GPUs. CUDA silently stops at the first entry that it does not
 * understand, and every rank of a job then looks for GPUs that are not there; here that is an error.
 * Pure.
 */

enum {
    VISIBLE_NAME_MAX = 96 /* bytes of an entry with its zero */
};

/** One device of the program: a GPU, or a part of one (MIG). */
struct visible_device {
    int gpu; /* index in struct gpus; -1: it is not known where it is     */
    char name
            [VISIBLE_NAME_MAX]; /* what the variable calls it: "3", "GPU-...", "MIG-..." */
};

struct visible {
    const char *variable; /* that narrows the list further: "CUDA_VISIBLE_DEVICES" */
    size_t count;
    struct visible_device items[GPUS_MAX]; /* in the program's order */
};

/**
 * The devices that a program with this environment would see.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a variable names a device that is not there, or
 *         twice, or more than GPUS_MAX; the error says which)
 */
TUTTI_MUST_USE tutti_status visible_read(
        struct visible *visible, const struct gpus *gpus, char *const *environment);

#endif
