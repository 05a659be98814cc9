/*
 * The tree that carries the coordination of one process set. Pure.
 *
 * Built from the set's own members: set rank 0 is the root (the coordinator); the lowest
 * member of each node is its leader; leaders form a k-ary tree, and the members of a node
 * a k-ary tree below their leader, so a message crosses each network link once.
 */
#ifndef TUTTI_AGREE_TREE_H
#define TUTTI_AGREE_TREE_H

#include <stdbool.h>

#include "base/bitset.h"

struct tree {
    int size; /* members of the set */
    int rank; /* this member */
    int *parents; /* [size] parent of each member, -1 for the root; owned */
    int *children; /* [child_count] of this member, ascending; owned */
    int child_count;
    struct bitset
            *subtrees; /* [child_count] members below each child, itself included */
};

/**
 * Builds the tree as member `rank` sees it.
 * @param node_of  [size] node of each member
 * @return false when out of memory
 */
bool tree_init(struct tree *tree, int size, int rank, const int *node_of, int fanout);
void tree_fini(struct tree *tree);

/** Index of a child in `children`, or -1. */
int tree_child_index(const struct tree *tree, int member);
/** True when `member` is `top` or below it. */
bool tree_is_below(const struct tree *tree, int member, int top);

#endif
