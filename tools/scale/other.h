/*
 * What bench-scale says without negotiators: the start, the news of a death, and models of
 * agreement for more ranks than fit, and of other schemes. The same parameters (network.h).
 */
#ifndef TUTTI_TOOLS_SCALE_OTHER_H
#define TUTTI_TOOLS_SCALE_OTHER_H

#include "tools/scale/network.h"

/** The news of a death. */
struct spread {
    double ns; /* until the last rank knows */
    int told; /* ranks that know, the dead one aside */
    int messages_most; /* of a rank, sent and received */
};

/** A rank dies, and the next one has found out: lib/run/spread.h over the network. */
struct spread other_death(const struct model *model, int ranks, uint64_t seed);

/** The exchange of facts at the start. */
struct start {
    double ns; /* until the last rank has the result */
    double bytes_most; /* that a rank, the first, receives */
};

/**
 * By the max-plus recurrence over the tree of lib/transport/bootstrap.c: what must be equal,
 * once on each link, and the place of each node below, put together as by lib/topo/places.c.
 */
struct start other_start(
        const struct model *model, int ranks, double record_bytes, double place_bytes);

/**
 * A slow step by the max-plus recurrence over the same tree, without jitter, hiccups and
 * stragglers: each time is the maximum of some others plus constants. NAN without memory.
 */
double other_slow_ns(const struct model *model, int ranks, int fanout, int tensors);

/** Horovod, a name that is not cached: all requests to rank 0, the response to all. */
double other_gather_ns(const struct model *model, int ranks, int tensors);
/** Horovod, all names cached: an allreduce of a bit for each, by recursive doubling. */
double other_bits_ns(const struct model *model, int ranks, int tensors);

#endif
