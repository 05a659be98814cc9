/*
 * What the files of the composed backend share: its state, and a batch in flight.
 *
 * A batch goes through stages. In each the rank takes part in up to two batches: one of
 * the inner backend with its group, one of the other backend across the groups. These are
 * the legs of the batch; a stage ends when both are final.
 *
 * A large batch is done in pieces, each of which is a batch that goes through the stages. Two
 * are under way, so that one is inside the groups while the other is across.
 */
#ifndef TUTTI_OPS_HIER_HIER_TASK_H
#define TUTTI_OPS_HIER_HIER_TASK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "ops/hier/grouping.h"
#include "ops/hier/hier.h"
#include "ops/hier/pool.h"
#include "ops/op.h"

/** A backend that this one is composed of. */
struct hier_side {
    const struct op_backend *ops;
    struct op_env env; /* what it was opened with, and keeps using */
    void *state; /* owned */
};

struct hier_state {
    const struct hier_config *config; /* borrowed */
    struct hier_side inner, across;
    int *numbers; /* [world_size] scratch of grouping_make(); owned */
    int *places; /* [grouping_entries(world_size)] of accepts(); owned */
    struct hier_pool desks; /* for tables and the tasks of the legs */
    struct hier_pool scratch; /* for partial results */
};

/** A batch that is part of a batch. */
struct hier_leg {
    struct op_set set;
    struct op_batch batch;
    int *world; /* [set.size] its world ranks; in the desk, like what follows */
    struct op_run *runs;
    struct op_part *parts;
    void *task; /* of its backend */
    bool wanted; /* to be started in this stage */
    bool active; /* started, and not final */
};

/** A range of elements of a batch, all its runs behind each other. */
struct hier_slice {
    size_t first;
    size_t count;
};

/** Kinds of legs; one that sends across has the first. */
enum hier_bank {
    HIER_ACROSS,
    HIER_FIRST, /* inside, at first */
    HIER_LAST, /* inside, at last */
};

/** Pieces of a batch under way. */
#define HIER_PIECES 2

static_assert((HIER_LAST + 1) * HIER_PIECES <= OP_PAIR_BANK, "a bank for each");

/** A batch, or a piece of it. */
struct hier_task {
    const struct op_batch *batch; /* or `own` */
    struct op_batch own; /* the piece */
    uint32_t piece; /* 0: it is the batch */
    struct grouping groups;
    int stage, stages;
    struct hier_leg inner, across;
    struct hier_slice slice; /* ALLREDUCE, REDUCE: what this rank's lane carries */
    char *scratch; /* a reduction's partial results; never NULL then */
    void *desk; /* tables; NULL: the task is over */
};

/** What the core has of a batch in flight. */
struct hier_flight {
    const struct op_batch *batch;
    size_t length; /* elements of a piece; the last may have fewer */
    uint32_t pieces; /* 1: it is not cut */
    uint32_t begun, done; /* the first that were begun, that are over */
    struct hier_task tasks[HIER_PIECES]; /* piece by piece in turn */
};

/** How many runs and parts the legs of a batch have at most. */
struct hier_room {
    size_t inner_runs, inner_parts;
    size_t across_runs, across_parts;
};

/** True where this rank is in the group of the batch's root. */
static inline bool hier_has_root(const struct hier_task *task)
{
    return task->groups.number[task->batch->root] == task->groups.mine;
}

/** Elements that a lane carries of an ALLREDUCE or a REDUCE; the last ones carry less. */
size_t hier_slice_length(const struct op_batch *batch, const struct grouping *groups);
/** Makes a leg a batch of this rank's group, in a bank. Its kind is the caller's. */
void hier_lead_inner(struct hier_task *task, enum hier_bank bank);
/**
 * Makes a leg a batch between one member of each group.
 * @param member_of  member of the set that stands for a group; own group: this rank
 */
void hier_lead_across(struct hier_task *task,
        int (*member_of)(const struct hier_task *task, int group));

/* For each kind of collective: what it needs, and the legs of a stage. */

void hier_reduce_room(const struct hier_task *task, struct hier_room *room);
/** @return bytes of scratch; sets task->slice */
size_t hier_reduce_init(struct hier_task *task);
void hier_reduce_stage(struct hier_task *task);

void hier_broadcast_room(struct hier_room *room);
void hier_broadcast_stage(struct hier_task *task);

void hier_exchange_room(const struct hier_task *task, struct hier_room *room);
void hier_exchange_stage(struct hier_task *task);

#endif
