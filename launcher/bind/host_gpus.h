/*
 * The GPUs of a machine, found on the PCI bus: no CUDA or ROCm is needed.
 */
#ifndef TUTTI_LAUNCHER_BIND_HOST_GPUS_H
#define TUTTI_LAUNCHER_BIND_HOST_GPUS_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
