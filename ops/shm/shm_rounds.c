/*
 * The rounds of a batch (shm_task.h): which can be done, and telling the others of them.
 */
#include "ops/shm/shm_task.h"

/* Rounds that a rank stages ahead of the last one that it has finished. */
#define ROUNDS_AHEAD 2
/* Rounds of a step between ranks that address all of the memory. */
#define ROUNDS_A_STEP 4

/** Says how many rounds of a stage are done: in the end more than there are. */
static void publish(struct shm_state *shm, const struct shm_task *task,
        enum shm_stage stage, const struct shm_rounds *rounds)
{
    const struct op_batch *batch = task->batch;
    struct shm_slot *slot =
            shm_slot_of(shm_member(shm, batch, batch->set->rank), batch);
    const uint64_t done =
            rounds->done == rounds->all ? shm_rounds_max(batch) : rounds->done;

    /* Pairs with the load in shm_member_reached(). */
    atomic_store_explicit(
            &slot->reached[stage], shm_flag(batch, done), memory_order_release);
}

/** The ring of a member that has arrived, as an offset; 0: none. */
static uint64_t member_staging(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    return shm_slot_of(shm_member(shm, batch, member), batch)->staging;
}

/** True when a member has done so many rounds of its work, or all of it. */
static bool member_worked(const struct shm_state *shm, const struct op_batch *batch,
        int member, uint64_t rounds)
{
    return shm_member_reached(shm, batch, member, SHM_WORKED, rounds) ||
            shm_member_reached(shm, batch, member, SHM_RELEASED, 0);
}

/** True when others are done with the place of this rank's next round to stage. */
static bool may_stage(const struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const uint64_t next = task->stage.done + 1;

    if (next <= SHM_RING_ROUNDS) {
        return true;
    }
    if (task->take.all > 0 && task->take.done < next - SHM_RING_ROUNDS) {
        return false;
    }
    for (int member = 0; member < batch->set->size; member++) {
        if (member != batch->set->rank && shm_member_works(batch, member) &&
                !member_worked(shm, batch, member, next - SHM_RING_ROUNDS)) {
            return false;
        }
    }
    return true;
}

/** True when what the next round of work reads and writes is there. */
static bool may_work(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct shm_members awaited = shm_awaited(batch, SHM_ARRIVED);

    if (!shm_all_reached(shm, task, SHM_ARRIVED)) {
        return false;
    }
    for (int i = awaited.first; i < awaited.first + awaited.count; i++) {
        if (i != batch->set->rank && member_staging(shm, batch, i) != 0 &&
                !shm_member_reached(shm, batch, i, SHM_STAGED, task->work.done + 1)) {
            return false;
        }
    }
    return true;
}

/** True when the results of the next round to take are there. */
static bool may_take(const struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;

    if (task->take.done == task->stage.done) {
        return false;
    }
    for (int member = 0; member < batch->set->size; member++) {
        if (member != batch->set->rank && shm_member_works(batch, member) &&
                !shm_member_reached(
                        shm, batch, member, SHM_WORKED, task->take.done + 1)) {
            return false;
        }
    }
    return true;
}

static bool try_stage(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;

    if (task->stage.done == task->stage.all || !may_stage(shm, task)) {
        return false;
    }
    if (op_is_reduction(batch->collective)) {
        shm_reduce_stage(shm, task);
    } else if (batch->collective == TUTTI_BROADCAST) {
        shm_broadcast_stage(shm, task);
    } else {
        shm_exchange_stage(shm, task);
    }
    task->stage.done++;
    publish(shm, task, SHM_STAGED, &task->stage);
    if (task->work.all == 0) {
        publish(shm, task, SHM_WORKED, &task->work); /* or others wait to stage more */
    }
    for (int member = 0; member < batch->set->size; member++) {
        if (member != batch->set->rank && shm_member_works(batch, member)) {
            shm_wake(shm, batch, member);
        }
    }
    return true;
}

/** Does the next round of work. */
static void work_once(struct shm_state *shm, struct shm_task *task)
{
    if (op_is_reduction(task->batch->collective)) {
        shm_reduce_work(shm, task);
    } else if (task->batch->collective == TUTTI_BROADCAST) {
        shm_broadcast_work(shm, task);
    } else {
        shm_exchange_work(shm, task);
    }
}

static bool try_work(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct shm_members awaited = shm_awaited(batch, SHM_ARRIVED);

    if (task->work.done == task->work.all || !may_work(shm, task)) {
        return false;
    }
    work_once(shm, task);
    task->work.done++;
    publish(shm, task, SHM_WORKED, &task->work);
    for (int i = awaited.first; i < awaited.first + awaited.count; i++) {
        if (i != batch->set->rank && member_staging(shm, batch, i) != 0) {
            shm_wake(shm, batch, i);
        }
    }
    return true;
}

/**
 * True when this rank's work reads nothing that is staged, and nobody waits for rounds. As
 * long as there is work, those it reads from stay; later they may have left the batch.
 */
static bool is_unstaged(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct shm_members awaited = shm_awaited(batch, SHM_ARRIVED);

    if (task->stage.all > 0 || task->work.done == task->work.all ||
            !shm_all_reached(shm, task, SHM_ARRIVED)) {
        return false;
    }
    for (int i = awaited.first; i < awaited.first + awaited.count; i++) {
        if (member_staging(shm, batch, i) != 0) {
            return false;
        }
    }
    return true;
}

/** Works without telling anybody of rounds, for as long as a step may take. */
static void work_on(struct shm_state *shm, struct shm_task *task)
{
    for (int i = 0; i < ROUNDS_A_STEP && task->work.done < task->work.all; i++) {
        work_once(shm, task);
        task->work.done++;
    }
}

static bool try_take(struct shm_state *shm, struct shm_task *task)
{
    if (task->take.done == task->take.all || !may_take(shm, task)) {
        return false;
    }
    shm_reduce_take(shm, task);
    task->take.done++;
    return true;
}

/** Rounds that are finished here, so that their memory leaves the cache soon. */
static uint64_t rounds_finished(const struct shm_task *task)
{
    return task->take.all > 0 ? task->take.done : task->work.done;
}

bool shm_work_some(struct shm_state *shm, struct shm_task *task)
{
    bool did = false;

    if (is_unstaged(shm, task)) {
        work_on(shm, task);
        return true;
    }
    if (task->stage.done < rounds_finished(task) + ROUNDS_AHEAD) {
        did = try_stage(shm, task);
    }
    did |= try_work(shm, task);
    did |= try_take(shm, task);
    return did || try_stage(shm, task);
}
