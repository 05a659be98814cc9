/*
 * Who gets what of a host: a GPU, cores near it, their memory. Pure: the machine is
 * handed in, so any machine can be planned for.
 */
#ifndef TUTTI_LAUNCHER_BIND_BIND_PLAN_H
#define TUTTI_LAUNCHER_BIND_BIND_PLAN_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/bind/host_gpus.h"

/*
 * The cores that a process may use, and fair shares of them. All threads of a core go to one rank: two
 * ranks on one core would halve each other's speed and take turns in being late.
 */

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

/** A host as a process sees it. */
struct bind_machine {
    hwloc_topology_t topology; /* borrowed                                          */
    hwloc_const_cpuset_t allowed; /* that this process may use; nothing is planned
                                     outside of it; borrowed                       */
    int quota; /* cores that a limit of CPU time leaves all ranks together; 0: none    */
    struct gpus gpus;
};

/** What one rank gets. */
struct bind_place {
    int device; /* index in plan->visible; -1: no GPU                              */
    int part; /* which part of the host's cores it has a share of                */
    int home_first,
            home_weight; /* lowest cpu and number of cpus that were near enough */
    int sharers; /* ranks that have the same cores, itself included                */
    int cores; /* in `cpus`                                                      */
    int threads; /* to compute with: OMP_NUM_THREADS, at least 1                   */
    bool is_bound; /* false: more ranks than cores, it may use all that is allowed   */
    bool is_far; /* none of the cores near its GPU are allowed                     */
    hwloc_bitmap_t cpus; /* its hardware threads; owned                            */
    hwloc_bitmap_t memory; /* its NUMA nodes; owned                                */
};

/** Zeroed is valid input for bind_plan_fini(). */
struct bind_plan {
    struct visible visible; /* the GPUs that ranks see      */
    struct cores cores; /* all allowed ones             */
    struct bind_place *places; /* one per rank; owned          */
    int count; /* ranks                        */
    hwloc_bitmap_t *parts; /* sets of cpus, disjoint; owned */
    int part_count;
};

/**
 * Plans for `count` ranks. Rank i gets the i-th visible GPU, modulo their number. Ranks
 * whose GPUs are near the same cores share these cores out evenly.
 * @param environment  of the ranks, NULL-terminated: which GPUs they see
 * @return TUTTI_OK, TUTTI_ERR_INVALID (see visible_read()), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status bind_plan_init(struct bind_plan *plan,
        const struct bind_machine *machine, int count, char *const *environment);
void bind_plan_fini(struct bind_plan *plan);

/** The GPU of a rank; NULL: it has none, or nothing is known of it. */
const struct gpu *bind_plan_gpu(
        const struct bind_plan *plan, const struct bind_machine *machine, int rank);

#endif
