/*
 * The cores that a process may use, and fair shares of them. Pure.
 */
#ifndef TUTTI_LAUNCHER_BIND_CORES_H
#define TUTTI_LAUNCHER_BIND_CORES_H

#include <hwloc.h>
#include <stddef.h>

#include <tutti/tutti.h>

/** Zeroed is valid and empty. */
struct cores {
    hwloc_bitmap_t
            *items; /* allowed threads of each core, neighbours together; owned */
    size_t count;
};

/**
 * The cores of a machine that have an allowed hardware thread, node after node.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status cores_init(
        struct cores *cores, hwloc_topology_t topology, hwloc_const_cpuset_t allowed);
void cores_fini(struct cores *cores);

/** Number of cores that have a thread within `part`. */
size_t cores_count(const struct cores *cores, hwloc_const_cpuset_t part);

/**
 * Share `index` of `count` of the cores within `part`: core k of n belongs to share i of s
 * when floor(i*n/s) <= k < floor((i+1)*n/s), so shares are neighbours and differ by at
 * most one core. Where there are more shares than cores, each is all of them.
 * @param[out] share  their threads
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status cores_share(const struct cores *cores,
        hwloc_const_cpuset_t part, int index, int count, hwloc_bitmap_t share);

#endif
