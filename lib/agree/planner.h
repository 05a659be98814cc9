/*
 * The planner: tensors that became ready in one log message -> batches. Pure, and
 * equal on all ranks, because the log message and the parameters are.
 *
 * Fusing a tensor saves a launch (alpha) and costs copying it in and out of a fusion
 * buffer (2 n / copy bandwidth), so only tensors up to `tensor_bytes` are fused; a batch
 * stays within `batch_bytes`, so that the buffer stays in the cache. A tensor looks past
 * tensors of other keys for a batch of its own key that has room (look-ahead). Tensors
 * whose size is not known on all ranks are launched alone, but for members of a group.
 */
#ifndef TUTTI_AGREE_PLANNER_H
#define TUTTI_AGREE_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/meta.h"

/** Limits; equal on all ranks. */
struct planner_limits {
    size_t batch_bytes; /* a fused batch is at most this long; below 2: no fusion */
    size_t tensor_bytes; /* longer tensors are launched alone */
    size_t device_bytes; /* both, of device memory; 0: as the above */
};

/** One ready tensor. */
struct planner_item {
    int collective; /* any but BARRIER */
    struct meta meta; /* dims are not looked at */
    size_t bytes; /* equal on all ranks; SIZE_MAX: not known on all of them */
    uint64_t joined; /* stands for the ranks that have joined; 0: none */
    size_t batch; /* out: index of its batch */
};

/** Kept between log messages only to avoid allocation; zeroed is valid. */
struct planner {
    struct planner_batch *batches; /* of the current log message; owned */
    size_t count, capacity;
};

void planner_fini(struct planner *planner);

/** Forgets all batches; items are added one by one. */
void planner_begin(struct planner *planner);

/**
 * Assigns a batch to one item more; planner->count is how many there are then.
 * @param item  stays where it is until the last one is added
 * @return false when out of memory
 */
bool planner_add(struct planner *planner, const struct planner_limits *limits,
        struct planner_item *item);

/**
 * Assigns a batch to each item, in the order of the items; batches are numbered from 0 in
 * the order of their first item, which is the order to launch them in. Members of one
 * group with equal keys share a batch whatever its size, and with no other tensors.
 * @param[out] batch_count  number of batches
 * @return false when out of memory
 */
bool planner_plan(struct planner *planner, const struct planner_limits *limits,
        struct planner_item *items, size_t count, size_t *batch_count);

#endif
