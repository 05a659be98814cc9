/*
 * A data plane composed of two others: an inner one between the members of a group, and
 * one across the groups. Groups are ranks that reach each other faster than the rest:
 * those of a node, or of a cache.
 *
 * A reduction goes through three phases, of which the middle one moves a fraction of the
 * bytes that it would move without groups (docs/design/hier.md). Its sums are those of
 * the groups, summed; 16-bit floats are rounded at both levels.
 */
#ifndef TUTTI_OPS_HIER_HIER_H
#define TUTTI_OPS_HIER_HIER_H

#include <stddef.h>

#include "ops/op.h"

/**
 * What it is composed of; op_env.native points to it. Borrowed until close(), with all it
 * points to. All but the natives and the memory is equal on all ranks, except that a rank
 * that is alone in its group may have op_self inside.
 */
struct hier_config {
    const struct op_backend *inner; /* between the ranks of a group; opened by hier */
    const struct op_backend *across; /* between ranks of different groups; likewise */
    void *inner_native;
    void *across_native;
    const int *group_of; /* [world_size] group of each rank, below world_size */
    const int *
            within; /* [world_size] sets with several values in it are declined; NULL */
    int size_min; /* sets with fewer members are declined */
    size_t piece_chunks; /* larger batches are done in pieces of so many op_env.chunk_bytes
                            or more; 0: in one */

    /* Zeroed memory on a boundary of 64 bytes that a group's ranks all address, for
       partial results; NULL: none is left. A NULL function: the heap. */
    void *(*alloc)(void *user, size_t bytes);
    void (*give_back)(void *user, void *memory);
    void *user;
};

/**
 * The backend. Declines sets that are in one group, or of which no two members share one;
 * exchanges whose sizes are not known; averages of integers, whose sums need 64 bits; and
 * a REDUCESCATTER over groups of different sizes.
 *
 * Batches are in banks of their own (op_set.bank): enum hier_bank, in hier_task.h. They are not started in the same order on all ranks, so both backends must tell
 * batches apart by set, bank and sequence alone.
 */
extern const struct op_backend op_hier;

#endif
