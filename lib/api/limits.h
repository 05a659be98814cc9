/*
 * How much is moved at a time, from the parameters or from this machine's caches.
 */
#ifndef TUTTI_API_LIMITS_H
#define TUTTI_API_LIMITS_H

#include <stddef.h>

#include "agree/planner.h"
#include "base/config.h"
#include "topo/machine.h"

/**
 * What this rank would choose; ranks use the smallest of all.
 * @param[out] fusion       of batches
 * @param[out] chunk_bytes  what backends move and reduce at a time
 */
void limits_choose(struct planner_limits *fusion, size_t *chunk_bytes,
        const struct config *config, const struct machine *machine);

#endif
