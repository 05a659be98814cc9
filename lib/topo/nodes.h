/*
 * Who is where: the map between ranks and nodes. Pure.
 *
 * Jobs are placed regularly, so that a few runs say where all ranks are, however many.
 */
#ifndef TUTTI_TOPO_NODES_H
#define TUTTI_TOPO_NODES_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "base/wire.h"

/** Ranks from `first` to the next run: rank first + i is on node `node` + i / `each`. */
struct nodes_run {
    int first;
    int node;
    int each; /* ranks on each node, of which the last may have fewer */
};

/** Placement of all ranks; nodes are numbered by their lowest rank. Zeroed is valid. */
struct nodes {
    int size; /* ranks */
    int count; /* nodes */
    struct nodes_run *runs; /* [run_count] ascending; owned */
    size_t run_count, run_capacity;
};

/** Adds `ranks` ranks, all on one node: `node` is at most nodes->count. False: no memory */
bool nodes_add(struct nodes *nodes, int node, int ranks);
/** Adds the ranks of another placement, whose node n is numbers[n]; as nodes_add(). */
bool nodes_append(struct nodes *nodes, const struct nodes *more, const int *numbers);
void nodes_fini(struct nodes *nodes);

/** The node of a rank. */
int nodes_of(const struct nodes *nodes, int rank);
/** How many of the ranks before `end` are on a node. */
int nodes_ranks_before(const struct nodes *nodes, int node, int end);
/** How many are on it. */
static inline int nodes_ranks(const struct nodes *nodes, int node)
{
    return nodes_ranks_before(nodes, node, nodes->size);
}
/** The index of a rank among those of its node. */
static inline int nodes_local(const struct nodes *nodes, int rank)
{
    return nodes_ranks_before(nodes, nodes_of(nodes, rank), rank);
}
/** Writes the ranks of a node, ascending. @param[out] ranks [nodes_ranks(nodes, node)] */
void nodes_list(const struct nodes *nodes, int node, int *ranks);
/** The nodes of all ranks, to be freed by mem_free(); NULL: no memory */
int *nodes_table(const struct nodes *nodes);

void nodes_put(struct wire_writer *out, const struct nodes *nodes);
/** @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_PROTOCOL */
tutti_status nodes_get(struct wire_reader *in, struct nodes *nodes);

#endif
