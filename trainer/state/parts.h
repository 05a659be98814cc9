/*
 * Which rank supplies which elements of a state that is divided among the ranks.
 */
#ifndef TUTTI_TRAINER_STATE_PARTS_H
#define TUTTI_TRAINER_STATE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/tensors.h"

/** Elements of a tensor that one rank has, or supplies. */
struct part {
    int64_t first;
    int64_t count;
    int64_t rank;
};

/** Room for the parts of a tensor, in ascending order, and an empty one behind them. */
static inline size_t parts_stride(const struct state_group *group)
{
    return (size_t)group->ranks + 1;
}

/**
 * Divides the work of saving. Collective.
 * @param[out] parts  those of tensor i begin at i * parts_stride(); zeroed
 * @param room        n of each rank
 * @param spread      every rank is to supply about as much of what all have; false: rank 0
 *                    supplies all that it has
 * @return TUTTI_ERR_INVALID on all ranks: elements that no rank has
 */
TUTTI_MUST_USE tutti_status parts_divide(struct part *parts, struct part *room,
        const struct state_group *group, const tutti_state_tensor *tensors, size_t n,
        bool spread);

#endif
