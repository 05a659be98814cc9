/*
 * What only moves bytes.
 *
 * A broadcast goes to one member of each group, which passes it on; the root's group gets
 * it from the root at the same time:
 *
 *     root ---- across ----> first member of another group ---- inside ----> its group
 *       `------ inside ----> the root's group
 *
 * A large one is done in pieces, so that what has come is passed on while more comes.
 *
 * Of an exchange the parts between members of one group move inside, the others across,
 * both at once. Nothing is gathered on the way: parts differ by receiver, so no byte
 * would leave a group less often.
 *
 * The parts of an allgather do not differ, so one member of each other group gets a part,
 * straight into its output, and passes it on: of what a group of m members gets, member i
 * carries the parts of members i, i + m, i + 2m ... of each other group.
 *
 *                  group 0                    group 1
 *                  member 0    member 1       member 2    member 3
 *     stage 0      part 0  <------------->    part 2                   across
 *                              part 1  <------------->    part 3
 *                  part 0 <-> part 1          part 2 <-> part 3        inside
 *     stage 1      part 2 <-> part 3          part 0 <-> part 1        inside
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
        hier_lead_inner(task, HIER_FIRST);
        pass_on(task, &task->inner, grouping_local(groups, source));
    }
}

/* ----------------------------------------------------------------- exchanges */

/** Parts of an allgather that a member of this rank's group carries at most. */
static size_t carried_parts(const struct hier_task *task)
{
    const struct grouping *groups = &task->groups;
    const int carriers = grouping_size(groups, groups->mine);
    size_t parts = 0;

    for (int group = 0; group < groups->count; group++) {
        if (group != groups->mine) {
            parts += (size_t)((grouping_size(groups, group) - 1) / carriers + 1);
        }
    }
    return parts;
}

void hier_exchange_room(const struct hier_task *task, struct hier_room *room)
{
    const size_t runs = task->batch->run_count;
    const size_t members = (size_t)grouping_size(&task->groups, task->groups.mine);
    const size_t inner_runs = task->batch->collective == TUTTI_ALLGATHER
            ? runs * carried_parts(task)
            : runs;

    *room = (struct hier_room){ .inner_runs = inner_runs,
        .inner_parts = 2 * inner_runs * members,
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
    hier_lead_inner(task, HIER_FIRST);
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

/** True when a part from a member to one of another group goes straight there. */
static bool crosses(const struct hier_task *task, int from, int to)
{
    const struct grouping *groups = &task->groups;

    if (groups->number[from] == groups->number[to]) {
        return false;
    }
    return task->batch->collective != TUTTI_ALLGATHER ||
            grouping_local(groups, from) % grouping_size(groups, groups->number[to]) ==
            grouping_local(groups, to);
}

/**
 * All other parts, but those that are passed on. An allgather without some of its parts is
 * an alltoall. All members take part, also those between which nothing flows: who that is
 * only they know.
 */
static void exchange_across(struct hier_task *task)
{
    const struct op_batch *batch = task->batch;
    const int me = batch->set->rank;
    const size_t size = (size_t)batch->set->size;
    struct hier_leg *leg = &task->across;

    leg->set = *batch->set;
    leg->batch = (struct op_batch){ .set = &leg->set,
        .sequence = batch->sequence,
        .root = batch->root,
        .runs = leg->runs };
    leg->wanted = true;
    lead_exchange(task, leg,
            batch->collective == TUTTI_ALLGATHER ? TUTTI_ALLTOALL : batch->collective);
    for (size_t run = 0; run < batch->run_count; run++) {
        leg->runs[run] = batch->runs[run];
        leg->runs[run].sends = &leg->parts[2 * run * size];
        leg->runs[run].recvs = &leg->parts[(2 * run + 1) * size];
    }
    for (int m = 0; m < batch->set->size; m++) {
        const bool goes = crosses(task, me, m);
        const bool comes = crosses(task, m, me);

        for (size_t run = 0; run < batch->run_count; run++) {
            struct op_part *send = &leg->parts[2 * run * size + (size_t)m];
            struct op_part *recv = send + size;

            *send = batch->runs[run].sends[m];
            *recv = batch->runs[run].recvs[m];
            send->bytes = goes ? send->bytes : 0;
            recv->bytes = comes ? recv->bytes : 0;
        }
    }
}

/**
 * A run that gives each member of the group the parts that the others carry: of members
 * `first`, `first` + 1 ... of another group, one from each.
 */
static struct op_run carried_run(const struct hier_task *task, const struct op_run *run,
        int group, int first, struct op_part *sends)
{
    const struct grouping *groups = &task->groups;
    const int carriers = task->inner.set.size;
    struct op_part *recvs = sends + carriers;

    for (int m = 0; m < carriers; m++) {
        recvs[m] = first + m < grouping_size(groups, group)
                ? run->recvs[grouping_member(groups, group, first + m)]
                : (struct op_part){ 0 };
    }
    for (int m = 0; m < carriers; m++) {
        sends[m] = recvs[groups->local];
    }
    return (struct op_run){
        .input = run->output, .output = run->output, .sends = sends, .recvs = recvs
    };
}

/** Adds a run for each of the batch. */
static void add_carried_runs(struct hier_task *task, int group, int first)
{
    struct hier_leg *leg = &task->inner;

    for (size_t run = 0; run < task->batch->run_count; run++) {
        const size_t at = leg->batch.run_count++;

        leg->runs[at] = carried_run(task, &task->batch->runs[run], group, first,
                &leg->parts[2 * at * (size_t)leg->set.size]);
    }
}

/** Passes on what came across of an allgather. */
static void exchange_carried(struct hier_task *task)
{
    const struct grouping *groups = &task->groups;
    struct hier_leg *leg = &task->inner;

    hier_lead_inner(task, HIER_LAST);
    lead_exchange(task, leg, TUTTI_ALLGATHER);
    leg->batch.run_count = 0;
    for (int group = 0; group < groups->count; group++) {
        const int parts = group != groups->mine ? grouping_size(groups, group) : 0;

        for (int first = 0; first < parts; first += leg->set.size) {
            add_carried_runs(task, group, first);
        }
    }
}

void hier_exchange_stage(struct hier_task *task)
{
    assert(task->batch->sizes_known);
    if (task->stage == 0) {
        exchange_inside(task);
        exchange_across(task);
    } else if (grouping_size(&task->groups, task->groups.mine) > 1) {
        exchange_carried(task);
    }
}
