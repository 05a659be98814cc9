/*
 * What only moves bytes.
 *
 * A broadcast goes to one member of each group, which passes it on; the root's group gets
 * it from the root at the same time:
 *
 *     root ---- across ----> first member of another group ---- inside ----> its group
 *       `------ inside ----> the root's group
 *
 * Of an exchange the parts between members of one group move inside, the others across,
 * both at once. Nothing is gathered on the way: parts differ by receiver, so no byte
 * would leave a group less often.
 */
#include <assert.h>

#include "ops/hier/hier_task.h"

/* ----------------------------------------------------------------- broadcast */

/** Who has a group's first copy. */
static int first_with_data(const struct hier_task *task, int group)
{
    const int root = task->batch->root;

    return group == task->groups.number[root]
            ? root
            : grouping_member(&task->groups, group, 0);
}

void hier_broadcast_room(struct hier_room *room)
{
    *room = (struct hier_room){ .inner_runs = 1, .across_runs = 1 };
}

/** Makes a leg a broadcast of the batch's run. */
static void pass_on(const struct hier_task *task, struct hier_leg *leg, int root)
{
    leg->batch.collective = TUTTI_BROADCAST;
    leg->batch.dtype = task->batch->dtype;
    leg->batch.root = root;
    leg->batch.run_count = 1;
    leg->batch.count = task->batch->count;
    leg->runs[0] = task->batch->runs[0];
    if (task->batch->set->rank != task->batch->root) {
        leg->runs[0].input = leg->runs[0].output; /* what has come is passed on */
    }
}

void hier_broadcast_stage(struct hier_task *task)
{
    const struct grouping *groups = &task->groups;
    const int source = first_with_data(task, groups->mine);
    const bool is_inner_stage = (task->stage == 0) == hier_has_root(task);

    if (task->stage == 0 && source == task->batch->set->rank) {
        hier_lead_across(task, first_with_data);
        pass_on(task, &task->across, groups->number[task->batch->root]);
    }
    if (is_inner_stage && grouping_size(groups, groups->mine) > 1) {
        hier_lead_inner(task, 1);
        pass_on(task, &task->inner, grouping_local(groups, source));
    }
}

/* ----------------------------------------------------------------- exchanges */

void hier_exchange_room(const struct hier_task *task, struct hier_room *room)
{
    const size_t runs = task->batch->run_count;
    const size_t members = (size_t)grouping_size(&task->groups, task->groups.mine);

    *room = (struct hier_room){ .inner_runs = runs,
        .inner_parts = 2 * runs * members,
        .across_runs = runs,
        .across_parts = 2 * runs * (size_t)task->batch->set->size };
}

/** Makes a leg an exchange; its runs are the caller's. */
static void lead_exchange(
        const struct hier_task *task, struct hier_leg *leg, tutti_collective collective)
{
    leg->batch.collective = collective;
    leg->batch.dtype = TUTTI_UINT8;
    leg->batch.sizes_known = true;
    leg->batch.run_count = task->batch->run_count;
}

static bool has_root(tutti_collective collective)
{
    return collective == TUTTI_GATHER || collective == TUTTI_SCATTER;
}

/** The parts between this rank and the members of its group. */
static void exchange_inside(struct hier_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct grouping *groups = &task->groups;
    struct hier_leg *leg = &task->inner;
    struct op_part *sends = leg->parts;

    if (has_root(batch->collective) && !hier_has_root(task)) {
        return;
    }
    hier_lead_inner(task, 1);
    lead_exchange(task, leg, batch->collective);
    if (has_root(batch->collective)) {
        leg->batch.root = grouping_local(groups, batch->root);
    }
    for (size_t run = 0; run < batch->run_count; run++) {
        struct op_part *recvs = sends + leg->set.size;

        for (int m = 0; m < leg->set.size; m++) {
            const int member = grouping_member(groups, groups->mine, m);

            sends[m] = batch->runs[run].sends[member];
            recvs[m] = batch->runs[run].recvs[member];
        }
        leg->runs[run] = batch->runs[run];
        leg->runs[run].sends = sends;
        leg->runs[run].recvs = recvs;
        sends += 2 * (size_t)leg->set.size;
    }
}

/** A part of a run, empty where it goes between members of this rank's group. */
static struct op_part outside(
        const struct hier_task *task, const struct op_part *parts, int member)
{
    struct op_part part = parts[member];

    if (task->groups.number[member] == task->groups.mine) {
        part.bytes = 0;
    }
    return part;
}

/**
 * All other parts. An allgather without some of its parts is an alltoall. All members
 * take part, also those between which nothing flows: who that is only they know.
 */
static void exchange_across(struct hier_task *task)
{
    const struct op_batch *batch = task->batch;
    struct hier_leg *leg = &task->across;
    struct op_part *sends = leg->parts;

    leg->set = *batch->set;
    leg->batch = (struct op_batch){ .set = &leg->set,
        .sequence = batch->sequence,
        .lane = batch->lane,
        .root = batch->root,
        .runs = leg->runs };
    leg->wanted = true;
    lead_exchange(task, leg,
            batch->collective == TUTTI_ALLGATHER ? TUTTI_ALLTOALL : batch->collective);
    for (size_t run = 0; run < batch->run_count; run++) {
        struct op_part *recvs = sends + leg->set.size;

        for (int m = 0; m < leg->set.size; m++) {
            sends[m] = outside(task, batch->runs[run].sends, m);
            recvs[m] = outside(task, batch->runs[run].recvs, m);
        }
        leg->runs[run] = batch->runs[run];
        leg->runs[run].sends = sends;
        leg->runs[run].recvs = recvs;
        sends += 2 * (size_t)leg->set.size;
    }
}

void hier_exchange_stage(struct hier_task *task)
{
    assert(task->stage == 0 && task->batch->sizes_known);
    exchange_inside(task);
    exchange_across(task);
}
