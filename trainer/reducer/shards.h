/*
 * The sum of the gradients of V virtual shards along one binary tree over their numbers.
 *
 * A range of shards is split at the largest power of two below its length, down to single shards,
 * as tutti's own sums split ranges of ranks (docs/numerics.md). A rank has a contiguous range of
 * shards. It adds up those subtrees that lie in its range, one partial sum for each largest one,
 * while the shards are computed. Then:
 *
 *   equal ranges of a power of two   each rank has one partial sum, and an allreduce over the
 *                                    ranks completes the tree
 *   other ranges                     rank j gets slice j of all partial sums (alltoall), adds
 *                                    them up along the tree, and the slices are gathered
 */
#ifndef TUTTI_TRAINER_REDUCER_SHARDS_H
#define TUTTI_TRAINER_REDUCER_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/trainer/compression.h>
#include <tutti/tutti.h>

enum {
    SHARDS_MAX = 65536
};

/** True if an allreduce over the ranks completes the tree. */
bool shards_fit_ranks(int shards, int ranks);

/** The sum of one gradient. */
struct shards_sum;

/** @param exact_tree  the allreduce follows the tree of ranks (tutti_sums_follow_ranks()) */
tutti_status shards_sum_create(const tutti_compressor_info *info, int shards,
        bool exact_tree, struct shards_sum **out);
void shards_sum_destroy(struct shards_sum *sum);

/**
 * Takes a shard's gradient, the `index`th of this rank, and zeroes it. After the last shard it is
 * the partial sum if an allreduce completes the tree; else the stages write it.
 */
void shards_sum_add(struct shards_sum *sum, int index, float *gradient);

/**
 * What completes the tree, with the sum as its state. NULL: an allreduce does, and the result is to
 * be scaled by 1 / shards.
 */
const tutti_compressor *shards_sum_stages(const struct shards_sum *sum);

#endif
