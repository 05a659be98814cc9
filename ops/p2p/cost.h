/*
 * What an allreduce over messages takes by each algorithm, by a model of the link:
 *
 *     L   a short message one way           B   bytes per us, each way
 *     o   each further message, sent or received, at the same time
 *     n   ranks                             S   bytes
 *
 *     gather     L + 2(n-2) o + (n-1) S/B                  one hop; everybody sends all to all
 *     doubling   k (L + S/B), k = log2 n; 2 ceil(log2 n) hops where n is no power of two
 *     direct     2L + 4c(n-1) o + 2 (n-1)/n S/B            c chunks; two hops
 *
 * Messages of gather and doubling that are longer than the link's are announced, answered, and fill
 * one direction at a time: 3L + 2 S/B take the place of L + S/B.
 *
 * The reduction is left out: it is far faster than links. docs/design/link.md compares this with
 * measurements, and says why there is no ring.
 */
#ifndef TUTTI_OPS_P2P_COST_H
#define TUTTI_OPS_P2P_COST_H

#include <stddef.h>

#include "ops/op.h"

/** The algorithms of a reduction. */
enum p2p_reduction {
    P2P_GATHER,
    P2P_DOUBLING,
    P2P_DIRECT,
    P2P_REDUCTION_COUNT
};

/** Microseconds. @param link  measured; n >= 2 */
double p2p_cost_us(
        const struct op_link *link, enum p2p_reduction which, int n, size_t bytes);

#endif
