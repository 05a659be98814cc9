/*
 * tuttirun --show-binding.
 */
#ifndef TUTTI_LAUNCHER_BIND_BIND_SHOW_H
#define TUTTI_LAUNCHER_BIND_BIND_SHOW_H

#include <tutti/tutti.h>

#include "launcher/options.h"

/**
 * Draws on stdout, or has hwloc's lstopo draw, what the ranks of a job would get of this
 * host: as many as -np says, or as the first host of a list has slots, or one per GPU.
 * The machine is another one where HWLOC_XMLFILE says so.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is no lstopo, or see bind_plan_init()),
 *         TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY; not at all when lstopo draws: this
 *         process becomes it
 */
TUTTI_MUST_USE tutti_status bind_show(
        const struct options *options, char *const *environment);

#endif
