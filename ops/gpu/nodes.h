/*
 * How the ranks of a process set lie on nodes, as a hierarchical reduction wants to know it.
 * Pure, and equal on all ranks but for who this one is.
 */
#ifndef TUTTI_OPS_GPU_NODES_H
#define TUTTI_OPS_GPU_NODES_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "ops/op.h"

/** What is known of the nodes of a set. */
struct nodes_view {
    int count; /* nodes that have members                               */
    int each; /* members on each of them; 0: not equally many          */
    int node; /* this rank's                                           */
    int local; /* this rank's index among the members on its node       */
};

/**
 * Looks at a set that this rank is a member of.
 * @param node_of  [ranks] node of each world rank, below `ranks`
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status nodes_view_make(struct nodes_view *view,
        const struct op_set *set, const int *node_of, int ranks);

/** True when steps by nodes differ from one call: several nodes, equally many on each. */
bool nodes_view_has_steps(const struct nodes_view *view);

#endif
