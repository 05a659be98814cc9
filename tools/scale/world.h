/*
 * The job of bench-scale: virtual ranks, each with the negotiators of the library and a host
 * that does one thing at a time, in simulated time.
 *
 * A rank with nothing in flight sleeps: what comes waits until it submits again.
 */
#ifndef TUTTI_TOOLS_SCALE_WORLD_H
#define TUTTI_TOOLS_SCALE_WORLD_H

#include "agree/negotiator.h"
#include "tools/scale/network.h"

enum {
    WORLD_SETS = 2, /* all ranks, and one that is created */
    WORLD_NAMES_MAX = 4096
};

struct world_rank {
    int pending; /* submissions in flight */
    const struct call *call; /* to be submitted at ready_ns; NULL: it was */
    double ready_ns;
    double free_ns; /* when its host has done what it does */
    double tick_ns; /* the earliest turn for a timer that is in the queue */
    bool turn_due; /* a turn is in the queue */
    double factor; /* of its host's times */
    struct mail *first, *last; /* come, not yet taken in */
    double done_ns; /* end of the last step here */
    uint32_t messages; /* sent and received in this step */
};

struct world_set {
    int size;
    int *ranks, *member_of, *node_of; /* world ranks, members or -1, nodes; owned */
    struct tree_shape shape;
    struct negotiator *negotiators; /* [size]; owned; NULL: there is no such set */
};

/** What all members of a set submit in a step. */
struct call {
    int set;
    struct request *requests;
    int count;
};

/** What came of a step. */
struct step {
    double ns; /* from the last rank's submission to when the last one knows */
    double messages_mean; /* of a rank, sent and received */
    uint32_t messages_most;
    int64_t bytes_most; /* that a rank has sent or received */
    int members, failed; /* ranks, and outcomes that were errors */
};

struct world {
    const struct model *model;
    int ranks;
    bool plans;
    struct network network;
    struct world_rank *all; /* [ranks]; owned */
    int64_t *bytes; /* [ranks] in this step; owned */
    struct world_set sets[WORLD_SETS];
    double now_ns;
    int waiting; /* members that do not know yet */
    int failed;
    char error[256]; /* of the first outcome that failed */

    /* of the host on which this runs */
    int64_t mail_bytes; /* of messages under way */
    int64_t memory_all,
            memory_root; /* bytes of all negotiators, of the coordinator's */
    uint64_t entries; /* tensors that negotiators looked at */
    double cpu_ns; /* in their functions */
};

/** All ranks, `plans`: with plan mode. Exits when there is no memory. */
struct world *world_create(
        const struct model *model, int ranks, int fanout, bool plans, uint64_t seed);
void world_destroy(struct world *world);

/** Makes set 1 of every `stride`-th node. */
void world_add_set(struct world *world, int fanout, int stride);
/**
 * All members of the call's set make it; the one of a world rank `late` (-1: nobody) so much
 * later. Returns when all know.
 */
struct step world_step(
        struct world *world, const struct call *call, int late, double late_ns);

#endif
