/*
 * Who is where: the map between ranks and (node, local rank). Pure.
 */
#ifndef TUTTI_TOPO_NODES_H
#define TUTTI_TOPO_NODES_H

#include <tutti/tutti.h>

/** Placement of all ranks; nodes are numbered by their lowest rank. */
struct nodes {
    int size; /* ranks */
    int count; /* nodes */
    int *node_of; /* [size] node of each rank; owned */
    int *local_of; /* [size] index among the ranks of its node; owned */
    int *local_size; /* [count] ranks on each node; owned */
};

/**
 * Groups ranks by the text that identifies their host. Ranks of a node need not be
 * contiguous.
 * @param hosts  size strings, borrowed during the call; NULL: all ranks are on one
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
tutti_status nodes_init(struct nodes *nodes, const char *const *hosts, int size);
void nodes_fini(struct nodes *nodes);

#endif
