/*
 * The layout of a plan: tensors that become ready one after the other -> batches. Pure.
 *
 * A batch of n bytes takes T(n) = alpha + beta n (agree/cost.h), batches go one after the
 * other, and one can only begin when all of its tensors are ready. To merge a tensor with
 * the next one saves an alpha and costs waiting for that one; it pays as long as less is
 * waited than saved, or as the link is busy anyway. This is the problem of MG-WFBP (S. Shi,
 * X. Chu, B. Li: "MG-WFBP: Efficient Data Communication for Distributed Synchronous SGD
 * Algorithms", INFOCOM 2019, section IV; "MG-WFBP: Merging Gradients Wisely for Efficient
 * Communication in Distributed Deep Learning", IEEE TPDS 2021), which merges greedily; here
 * it is solved by dynamic programming, so that limits and keys of batches are part of it:
 *
 *     bursts     Tensors are sorted by when they were ready. A burst ends where the
 *                next tensor comes alpha later or more, both on the slowest rank and on the
 *                fastest; a gap that only one of them had is that of a message or of the
 *                scheduler. Nothing is gained by a cut within a burst.
 *     segments   are bursts in a row, of which the planner (agree/planner.h) makes batches.
 *                With f(j), the earliest end of the first j bursts, f(0) = 0,
 *
 *                    f(j) = min over i < j of
 *                           max(f(i), ready(j)) + alpha batches(i, j) + beta bytes(i, j)
 *
 *                where batches(i, j) is what the planner makes of the bursts i to j - 1.
 *                f only grows with what is before, so this is the best of all ways to cut
 *                into segments of up to LAYOUT_SPAN bursts.
 *
 * What is ready at once is one burst and so laid out by the planner as in slow mode. Within
 * a segment batches are in the order in which they become whole.
 */
#ifndef TUTTI_AGREE_LAYOUT_H
#define TUTTI_AGREE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/cost.h"
#include "agree/planner.h"

/**
 * Bursts of a segment at most: bounds the work to that many looks at each tensor, and an
 * alpha more for so many bursts is no matter.
 */
#define LAYOUT_SPAN 64

/** One tensor. Members of a group have equal ready_ns. */
struct layout_item {
    struct planner_item planned; /* batch: out */
    int64_t ready_ns; /* on the slowest rank, since any common moment */
    int64_t seen_ns; /* on the fastest rank, likewise */
    int priority; /* of a burst, those with more come first */
};

/** Scratch, kept only to avoid allocation; zeroed is valid. */
struct layout {
    struct planner planner;
    struct layout_place *places; /* the items as they are sorted; owned */
    struct planner_item *sorted; /* likewise; owned */
    struct layout_burst *bursts; /* owned */
    struct layout_batch *batches; /* of a segment; owned */
    size_t place_capacity, sorted_capacity, burst_capacity, batch_capacity;
};

void layout_fini(struct layout *layout);

/**
 * Assigns a batch to each item; batches are numbered from 0 in the order in which they are
 * to be launched.
 * @param[out] batch_count  number of batches
 * @return false when out of memory
 */
bool layout_plan(struct layout *layout, const struct planner_limits *limits,
        const struct cost *cost, struct layout_item *items, size_t count,
        size_t *batch_count);

#endif
