/*
 * A plan in words and as a drawing; tuttirun --show-binding.
 */
#ifndef TUTTI_LAUNCHER_BIND_BIND_MAP_H
#define TUTTI_LAUNCHER_BIND_BIND_MAP_H

#include <stddef.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "launcher/bind/bind_plan.h"
#include "launcher/options.h"

/**
 * What a rank gets, in words: "12 cores (cpus 0-11,96-107), memory of node 0, GPU 0
 * (0000:59:00.0)". Cut where it does not fit.
 */
void map_describe(const struct bind_plan *plan, const struct bind_machine *machine,
        int rank, char *text, size_t capacity);

/** Draws the host: each NUMA node with its cores, its GPUs and the ranks that are there. */
void map_draw(
        const struct bind_plan *plan, const struct bind_machine *machine, FILE *file);

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
