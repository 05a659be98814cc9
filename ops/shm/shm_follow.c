/*
 * Who waits for whom, and how ranks tell how far they are (the table in shm.c).
 */
#include "ops/shm/shm_task.h"

/** True when only the root's memory is read. */
static bool is_from_root(const struct op_batch *batch)
{
    return batch->collective == TUTTI_BROADCAST || batch->collective == TUTTI_SCATTER;
}

struct shm_members shm_awaited(const struct op_batch *batch, enum shm_stage stage)
{
    if ((stage == SHM_ARRIVED && is_from_root(batch)) ||
            (stage == SHM_RELEASED && batch->collective == TUTTI_GATHER)) {
        return (struct shm_members){ .first = batch->root, .count = 1 };
    }
    return (struct shm_members){ .first = 0, .count = batch->set->size };
}

bool shm_member_works(const struct op_batch *batch, int member)
{
    if (is_from_root(batch)) {
        return member != batch->root;
    }
    if (batch->collective == TUTTI_GATHER) {
        return member == batch->root;
    }
    return op_is_exchange(batch->collective) || shm_reduce_has_share(batch, member);
}

bool shm_member_waits(const struct op_batch *batch, int member, enum shm_stage stage)
{
    if (stage == SHM_ARRIVED) {
        return shm_member_works(batch, member);
    }
    if (is_from_root(batch)) {
        return member == batch->root;
    }
    return batch->collective != TUTTI_GATHER || member != batch->root;
}

bool shm_member_reached(const struct shm_state *shm, const struct op_batch *batch,
        int member, enum shm_stage stage, uint64_t rounds)
{
    const struct shm_rank *rank = shm_member(shm, batch, member);
    const struct shm_slot *slot = shm_slot_of(rank, batch);

    /*
     * All three are sequentially consistent so that the last one knows it, see shm.c.
     * Pairs with the store in shm_row_claim(): reading a row makes no memory for it.
     */
    if (batch->set->index >=
            atomic_load_explicit(
                    &rank->segment->rows[batch->set->bank], memory_order_seq_cst)) {
        return false;
    }
    /* Pairs with the store in slot_claim(): counts of a former set are gone. */
    if (atomic_load_explicit(&slot->set, memory_order_seq_cst) != batch->set->id) {
        return false;
    }
    /* Pairs with the store in shm_reach() or publish(), whose data it makes visible. */
    return atomic_load_explicit(&slot->reached[stage], memory_order_seq_cst) >=
            shm_flag(batch, rounds);
}

bool shm_all_reached(
        const struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    struct shm_members awaited = shm_awaited(task->batch, stage);

    while (task->seen[stage] < awaited.count) {
        int member = awaited.first + task->seen[stage];

        if (!shm_member_reached(shm, task->batch, member, stage, 0)) {
            return false;
        }
        task->seen[stage]++;
    }
    return true;
}

void shm_wake(const struct shm_state *shm, const struct op_batch *batch, int member)
{
    shm->env->wake(shm->env->wake_user, batch->set->world_ranks[member]);
}

void shm_reach(struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    const struct op_batch *batch = task->batch;
    const struct op_set *set = batch->set;
    const struct shm_members awaited = shm_awaited(batch, stage);
    struct shm_slot *slot = shm_slot_of(shm_member(shm, batch, set->rank), batch);

    if (set->rank < awaited.first || set->rank >= awaited.first + awaited.count) {
        return;
    }
    /* Pairs with the load in shm_member_reached(). */
    atomic_store_explicit(
            &slot->reached[stage], shm_flag(batch, 0), memory_order_seq_cst);
    if (!shm_all_reached(shm, task, stage)) {
        return;
    }
    for (int member = 0; member < set->size; member++) {
        if (member != set->rank &&
                (task->phase == SHM_ONCE || shm_member_waits(batch, member, stage))) {
            shm_wake(shm, batch, member);
        }
    }
}
