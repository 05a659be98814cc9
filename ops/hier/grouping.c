/*
 * Grouping: numbers first, in order of appearance; then each member behind those of its
 * group that came before.
 */
#include "ops/hier/grouping.h"

/** Numbers the groups, and counts the members of group g in first[g + 1]. */
static void number_groups(struct grouping *grouping, const struct op_set *set,
        const int *group_of, int *scratch)
{
    for (int m = 0; m < set->size; m++) {
        int *number = &scratch[group_of[set->world_ranks[m]]];

        if (*number < 0) {
            *number = grouping->count++;
            grouping->first[grouping->count] = 0;
        }
        grouping->number[m] = *number;
        grouping->first[*number + 1]++;
    }
    for (int m = 0; m < set->size; m++) {
        scratch[group_of[set->world_ranks[m]]] = -1;
    }
}

/** Turns the counts into beginnings. */
static void add_up(struct grouping *grouping, int size)
{
    grouping->smallest = size;
    for (int g = 0; g < grouping->count; g++) {
        const int members = grouping->first[g + 1];

        grouping->smallest =
                members < grouping->smallest ? members : grouping->smallest;
        grouping->largest = members > grouping->largest ? members : grouping->largest;
        grouping->first[g + 1] += grouping->first[g];
    }
}

void grouping_make(struct grouping *grouping, const struct op_set *set,
        const int *group_of, int *scratch, int *memory)
{
    const int size = set->size;

    *grouping = (struct grouping){ .count = 0 };
    grouping->members = memory;
    grouping->number = grouping->members + size;
    grouping->first = grouping->number + size;
    grouping->first[0] = 0;
    number_groups(grouping, set, group_of, scratch);
    add_up(grouping, size);
    /* first[g] runs ahead to the end of group g, which is where group g + 1 begins ... */
    for (int m = 0; m < size; m++) {
        grouping->members[grouping->first[grouping->number[m]]++] = m;
    }
    /* ... so all are one place too far. */
    for (int g = grouping->count; g > 0; g--) {
        grouping->first[g] = grouping->first[g - 1];
    }
    grouping->first[0] = 0;
    grouping->mine = grouping->number[set->rank];
    grouping->local = grouping_local(grouping, set->rank);
}

/** Members from one on that are in its group, without a gap. */
static int block_size(const struct op_set *set, const int *group_of, int first)
{
    const int group = group_of[set->world_ranks[first]];
    int end = first + 1;

    while (end < set->size && group_of[set->world_ranks[end]] == group) {
        end++;
    }
    return end - first;
}

/** True when a member in front of a block, one at each `step`, is in its group. */
static bool block_is_continued(
        const struct op_set *set, const int *group_of, int first, int step)
{
    const int group = group_of[set->world_ranks[first]];

    for (int m = 0; m < first; m += step) {
        if (group_of[set->world_ranks[m]] == group) {
            return true;
        }
    }
    return false;
}

bool grouping_follows_ranks(const struct op_set *set, const int *group_of)
{
    const int step = block_size(set, group_of, 0);

    if (step < set->size && (step & (step - 1)) != 0) {
        return false;
    }
    for (int first = step; first < set->size; first += step) {
        const int size = block_size(set, group_of, first);

        if (size > step || (size < step && first + size < set->size) ||
                block_is_continued(set, group_of, first, step)) {
            return false;
        }
    }
    return true;
}

int grouping_local(const struct grouping *grouping, int member)
{
    const int first = grouping->first[grouping->number[member]];
    int index = 0;

    while (grouping->members[first + index] != member) {
        index++;
    }
    return index;
}
