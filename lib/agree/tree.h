/*
 * The tree that carries the coordination of one process set. Pure.
 *
 * Built from the set's own members: set rank 0 is the root (the coordinator); the lowest
 * member of each node is its leader; leaders form a k-ary tree, and the members of a node
 * a k-ary tree below their leader, so a message crosses each network link once.
 *
 * The shape says where all members are and takes 16 bytes for each. Only the coordinator
 * needs it for longer than the moment in which a member finds its own place.
 */
#ifndef TUTTI_AGREE_TREE_H
#define TUTTI_AGREE_TREE_H

#include <stdbool.h>
#include <stddef.h>

/** Where all members are, and so the parent and children of each. */
struct tree_shape {
    int size; /* members of the set */
    int fanout;
    int node_count;
    int *nodes; /* [size] node of each member, numbered by lowest member; owned */
    int *places; /* [size] of each member among those of its node; owned */
    int *firsts; /* [node_count + 1] of each node, in `members`; owned */
    int *members; /* [size] node after node, ascending in each; owned */
};

/** Members first to last are at or below a child. */
struct tree_range {
    int first, last;
    int child; /* index in `children` */
};

/** What one member knows. */
struct tree {
    int size; /* members of the set */
    int rank; /* this member */
    int parent; /* -1 for the root */
    int *children; /* [child_count] of this member, ascending; owned */
    int child_count;
    bool parent_is_near; /* it is of the same node */
    bool *child_is_near; /* [child_count] likewise; owned */
    int *near; /* [near_count] these children, ascending; owned */
    int near_count;
    struct tree_range *below; /* [range_count] ascending; owned */
    size_t range_count;
    const struct tree_shape *shape; /* at the root; else NULL; borrowed */
};

/**
 * @param node_of  [size] node of each member: any numbers from 0 on
 * @return false when out of memory
 */
bool tree_shape_init(
        struct tree_shape *shape, int size, const int *node_of, int fanout);
void tree_shape_fini(struct tree_shape *shape);
/** Parent of any member; -1 for the root. */
int tree_shape_parent(const struct tree_shape *shape, int member);
/**
 * Writes the children of a member, ascending; returns how many. children: [2 * fanout]
 */
int tree_shape_children(const struct tree_shape *shape, int member, int *children);
/** Writes the members at or below `top`, in any order; returns how many. `below`: [size] */
int tree_shape_below(const struct tree_shape *shape, int top, int *below);

/**
 * The tree as member `rank` sees it.
 * @param shape  borrowed by the root until fini, by the others during the call
 * @return false when out of memory
 */
bool tree_init(struct tree *tree, const struct tree_shape *shape, int rank);
void tree_fini(struct tree *tree);

/** Index of a child in `children`, or -1. */
int tree_child_index(const struct tree *tree, int member);
/** Index of the child that a member is, or is below; -1: it is below none. */
int tree_child_above(const struct tree *tree, int member);

#endif
