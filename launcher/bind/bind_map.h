/*
 * A plan in words and as a drawing. Pure.
 */
#ifndef TUTTI_LAUNCHER_BIND_BIND_MAP_H
#define TUTTI_LAUNCHER_BIND_BIND_MAP_H

#include <stddef.h>
#include <stdio.h>

#include "launcher/bind/bind_plan.h"

/**
 * What a rank gets, in words: "12 cores (cpus 0-11,96-107), memory of node 0, GPU 0
 * (0000:59:00.0)". Cut where it does not fit.
 */
void map_describe(const struct bind_plan *plan, const struct bind_machine *machine,
        int rank, char *text, size_t capacity);

/** Draws the host: each NUMA node with its cores, its GPUs and the ranks that are there. */
void map_draw(
        const struct bind_plan *plan, const struct bind_machine *machine, FILE *file);

#endif
