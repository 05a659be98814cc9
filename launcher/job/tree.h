/*
 * Which supervisor is connected to which in a job on more hosts than --fan-out: a tree below
 * tuttirun, in which nobody has more than that many below. Pure: ranks in, ranks out.
 *
 * Places are given in the order in which supervisors call, so whoever is given as a relay is
 * there. A rank goes to one of its own host where there is room, so that a host has one
 * connection to others; else to the highest place that is free, and there to who has the
 * fewest below.
 */
#ifndef TUTTI_LAUNCHER_JOB_TREE_H
#define TUTTI_LAUNCHER_JOB_TREE_H

#include <stdbool.h>

#include <tutti/tutti.h>

enum {
    TREE_TOP = -1, /* in place of a rank: tuttirun */
    TREE_NONE = -2 /* no place, or not in the tree */
};

struct tree_node {
    int above; /* rank of its relay, TREE_TOP, or TREE_NONE: it has no place */
    int below; /* how many have it as their relay                           */
    int host; /* number of its host, for comparison                        */
    bool can_relay; /* it listens, and is heard                             */
};

/** Zeroed there is none. */
struct tree {
    struct tree_node *nodes; /* by rank; owned              */
    int count; /* ranks                                     */
    int fan_out; /* at most so many below one; 0: no tree    */
    int top; /* how many are connected to tuttirun          */
};

/** @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status tree_init(struct tree *tree, int count, int fan_out);
void tree_fini(struct tree *tree);

/**
 * Gives a rank a place, another one if it had one; those below it stay below it.
 * @param avoid  a relay that cannot be reached; TREE_NONE: none
 * @return its relay, or TREE_TOP: also where that is too much, and nothing else is left
 */
int tree_place(struct tree *tree, int rank, int host, bool can_relay, int avoid);
/** A rank is lost; those below it have no way to tuttirun until they get another place. */
void tree_remove(struct tree *tree, int rank);
/** Relays between a rank and tuttirun; -1 where it has no way to it. */
int tree_depth(const struct tree *tree, int rank);

#endif
