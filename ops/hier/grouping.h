/*
 * Who of a process set is in which group. Pure.
 */
#ifndef TUTTI_OPS_HIER_GROUPING_H
#define TUTTI_OPS_HIER_GROUPING_H

#include <stddef.h>

#include "ops/op.h"

/** The groups of a set, numbered by their lowest members. The arrays are borrowed. */
struct grouping {
    int count; /* of groups */
    int smallest, largest; /* members of a group */
    int mine; /* the group of this rank */
    int local; /* this rank's index in it */
    int *members; /* [set size] group by group, ascending within each */
    int *first; /* [count + 1] where a group begins in `members` */
    int *number; /* [set size] group of each member */
};

/** Entries of the memory that grouping_make() needs for a set of a size. */
static inline size_t grouping_entries(int size)
{
    return 3 * (size_t)size + 1;
}

/**
 * Groups the members of a set.
 * @param group_of  group of each world rank
 * @param scratch   -1 for each value in group_of, and so again afterwards
 * @param memory    [grouping_entries(set->size)] for the arrays
 */
void grouping_make(struct grouping *grouping, const struct op_set *set,
        const int *group_of, int *scratch, int *memory);

static inline int grouping_size(const struct grouping *grouping, int group)
{
    return grouping->first[group + 1] - grouping->first[group];
}

/** A member of the set by group and index in it. */
static inline int grouping_member(const struct grouping *grouping, int group, int index)
{
    return grouping->members[grouping->first[group] + index];
}

/**
 * True when sums by group, and then over the groups, are those of the one tree over the
 * members (docs/numerics.md): the groups are consecutive blocks of one power of two of
 * members, of which the last may be smaller, or there is one group.
 */
bool grouping_follows_ranks(const struct op_set *set, const int *group_of);

/** The index of a member in its group. */
int grouping_local(const struct grouping *grouping, int member);

#endif
