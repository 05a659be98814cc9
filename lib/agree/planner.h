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

/** A batch so far; its key is that of its first tensor. */
struct planner_batch {
    int collective;
    const struct meta *meta;
    uint64_t joined;
    size_t bytes; /* of its tensors */
    bool open; /* others may join */
};

/** Kept between log messages only to avoid allocation; zeroed is valid. */
struct planner {
    struct planner_batch *batches; /* of the current log message; owned */
    size_t count, capacity;
};

void planner_fini(struct planner *planner);

/** Forgets all batches; tensors are added one by one, in the order of the log. */
void planner_begin(struct planner *planner);

/**
 * Assigns a batch to one tensor more. Batches are numbered from 0 in the order of their first
 * tensor, which is the order to launch them in; planner->count is how many there are then.
 * Members of one group with equal keys share a batch whatever its size, and with no other
 * tensors.
 * @param collective  any but BARRIER
 * @param meta    dims are not looked at; borrowed until the last tensor is added
 * @param bytes   equal on all ranks; SIZE_MAX: not known on all of them
 * @param joined  stands for the ranks that have joined; 0: none
 * @return the batch; SIZE_MAX when out of memory
 */
size_t planner_add(struct planner *planner, const struct planner_limits *limits,
        int collective, const struct meta *meta, size_t bytes, uint64_t joined);

#endif
