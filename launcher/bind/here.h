/*
 * This host as the calling process sees it. hwloc reads HWLOC_XMLFILE by itself, which
 * puts a recorded machine in its place, to look at its map.
 */
#ifndef TUTTI_LAUNCHER_BIND_HERE_H
#define TUTTI_LAUNCHER_BIND_HERE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/bind/bind_plan.h"

struct here {
    struct bind_machine machine; /* what a plan needs to know                     */
    bool is_real; /* false: a recorded machine, on which nothing can be bound     */
    hwloc_topology_t topology; /* owned                                           */
    hwloc_bitmap_t allowed; /* by cgroup, and by the binding of this process; owned */
};

/**
 * @param environment  of this process, where hwloc looks for HWLOC_XMLFILE
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (hwloc failed), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status here_open(struct here *here, char *const *environment);
void here_close(struct here *here);

/**
 * Binds the calling process to a place: all its threads to the cpus, memory of this
 * thread and of what it starts to the nodes, as long as they have any.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (cpus were refused; nothing is bound)
 */
TUTTI_MUST_USE tutti_status here_bind(
        const struct here *here, const struct bind_place *place, bool *has_memory);

#endif
