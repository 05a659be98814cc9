/*
 * Finds out at start-up which ranks share memory: those of a node that have all mapped
 * each other's reservations.
 */
#ifndef TUTTI_API_NEIGHBOURS_H
#define TUTTI_API_NEIGHBOURS_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "ops/shm/shm.h"
#include "run/start.h"

/**
 * Makes the domain of this rank's node. Collective over spec->control, whose nodes are
 * known. Where a rank of a node cannot share memory, no rank of that node does, and the
 * node's first rank says why; with backend=shm that is an error on all ranks.
 * @param[out] domain  NULL: none; owned by the caller
 * @param[out] all     all ranks of every node with several share memory, and some node has
 *                     several; equal on all ranks
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (backend=shm cannot be), errors of the transport
 */
tutti_status neighbours_meet(
        struct context_spec *spec, struct shm_domain **domain, bool *all);

#endif
