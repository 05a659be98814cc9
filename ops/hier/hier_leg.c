/*
 * The batches that a batch is composed of: on this node, and across nodes.
 */
#include "ops/hier/hier_task.h"

static void lead(struct hier_task *task, struct hier_leg *leg, enum hier_bank bank)
{
    const struct op_set *set = task->batch->set;

    leg->set = (struct op_set){ .id = set->id,
        .index = set->index,
        .bank = bank * HIER_PIECES + task->piece % HIER_PIECES,
        .world_ranks = leg->world };
    leg->batch = (struct op_batch){ .set = &leg->set,
        .sequence = task->batch->sequence,
        .piece = task->piece,
        .runs = leg->runs };
    leg->wanted = true;
}

void hier_lead_inner(struct hier_task *task, enum hier_bank bank)
{
    const struct grouping *groups = &task->groups;
    struct hier_leg *leg = &task->inner;

    lead(task, leg, bank);
    leg->set.rank = groups->local;
    leg->set.size = grouping_size(groups, groups->mine);
    for (int m = 0; m < leg->set.size; m++) {
        leg->world[m] =
                task->batch->set->world_ranks[grouping_member(groups, groups->mine, m)];
    }
}

void hier_lead_across(struct hier_task *task,
        int (*member_of)(const struct hier_task *task, int group))
{
    const struct grouping *groups = &task->groups;
    struct hier_leg *leg = &task->across;

    lead(task, leg, HIER_ACROSS);
    leg->set.rank = groups->mine;
    leg->set.size = groups->count;
    for (int group = 0; group < groups->count; group++) {
        leg->world[group] = task->batch->set->world_ranks[member_of(task, group)];
    }
}
