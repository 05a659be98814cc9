/*
 * The network and the time of bench-scale: events in the order of their times, and how long
 * a message takes. All ranks of a node share its link; a rank has a core of its own.
 *
 *   a message   host overhead at the sender; the sending node's link, one message after the
 *               other; latency and jitter; the receiving node's link; host overhead at the
 *               receiver. Within a node: overheads and the latency of the memory alone.
 *   a rank      does one thing at a time. It takes in what has come, then sends.
 *
 * Messages between two ranks keep their order.
 */
#ifndef TUTTI_TOOLS_SCALE_NETWORK_H
#define TUTTI_TOOLS_SCALE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/sim/rng.h"

/** Parameters of the model; times in ns. */
struct model {
    int per_node; /* ranks of a node */
    double latency_ns, local_ns; /* of a message, between nodes and within one */
    double byte_ns; /* of a byte on the link of a node */
    double header_bytes; /* of a message, beside what tutti sends */
    double overhead_ns; /* of the host, for each message sent or received */
    double entry_ns; /* of the host, for each tensor that a message or a step is about */
    double jitter_ns; /* mean of an exponential time that each message takes longer */
    double hiccup_chance, hiccup_ns; /* of a turn of a rank; up to twice as long */
    double straggler_chance,
            straggler_factor; /* of a rank: its host is so much slower */
    double skew_ns; /* ranks are ready within so long */
};

struct mail {
    struct mail *next;
    int from, to; /* world ranks */
    int set;
    size_t len;
    uint8_t bytes[];
};

/** Something that happens at a rank: a message comes, or (NULL) the rank has its turn. */
struct event {
    double at_ns;
    uint64_t order; /* of events at the same time */
    int rank;
    struct mail *mail;
};

struct network {
    const struct model *model;
    struct rng rng;
    double *out_free, *in_free; /* [nodes] when the links of a node are idle; owned */
    double *last_in; /* [ranks] when the last message from its node came; owned */
    struct event *events; /* a heap; owned */
    size_t count, capacity;
    uint64_t order;
};

void network_init(
        struct network *network, const struct model *model, int ranks, uint64_t seed);
void network_fini(struct network *network);
void network_at(struct network *network, double at_ns, int rank, struct mail *mail);
/** Sends at a time; the message is the network's until its event. */
void network_send(struct network *network, double at_ns, struct mail *mail);
/** The next event; false when nothing is left. */
bool network_next(struct network *network, struct event *event);
/** 0 to 1, less than 1. */
double network_random(struct network *network);

#endif
