/*
 * Batches between ranks that can address each other's memory: the steps of a batch. The
 * work is done in shm_reduce.c and shm_copy.c; small allreduces take a shorter way
 * (shm_once.c).
 *
 * Allreduce, two ranks, each tensor in two slices:
 *
 *           rank 0                              rank 1
 *   arrive: publishes where its runs lie        likewise
 *   work:   reads slice 0 of both inputs,       reads slice 1 of both inputs,
 *           writes slice 0 of both outputs      writes slice 1 of both outputs
 *   release, and leave when all have            likewise
 *
 * Work begins when those have arrived whose memory it touches, and a rank leaves when
 * those have released that touch its memory, so every input is complete when it is read
 * and every output when its owner goes on:
 *
 *                          work waits for arrival of   leaving waits for release by
 *   allreduce, reduce,     all                         all
 *   reducescatter,
 *   allgather, alltoall
 *   broadcast, scatter     the root                    all, at the root; nobody elsewhere
 *   gather                 all, at the root            the root; at the root nobody
 *
 * Reductions are safe in place: slice i of any input is read by one rank only, before
 * that rank writes slice i of the outputs. A rank without work does not wait for arrivals
 * and releases the batch when it arrives.
 *
 * Memory that the others cannot address is staged in rounds (shm_task.h) in between.
 *
 * Nothing blocks. Whoever completes what others wait for wakes those, and only then: the
 * earlier arrivals wake nobody. To know that one is the last takes sequential
 * consistency: each rank publishes its own stage and then looks at the others', and of
 * the ranks that do so at the same time at least one must see all. Rounds wake whom they
 * may concern every time.
 *
 * Giving up: a rank whose context failed hands its memory back to the application, so it
 * says that it is gone and waits until no other rank is at work. A rank at work checks
 * that nobody is gone after saying that it works.
 */
#include "ops/shm/shm.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "ops/shm/shm_task.h"

static tutti_status shm_start(
        void *state, void *task_memory, const struct op_batch *batch)
{
    struct shm_state *shm = state;
    struct shm_task *task = task_memory;

    if (!shm_row_claim(shm_member(shm, batch, batch->set->rank), batch->set)) {
        return shm_no_memory(shm_member(shm, batch, batch->set->rank), "control words",
                SHM_ROWS_IN_PAGE * sizeof(struct shm_slot[OP_INFLIGHT_MAX]));
    }
    *task = (struct shm_task){ .batch = batch };
    return shm_arrive(shm, task);
}

/** True when this rank need not wait for a stage, or no longer. */
static bool may_pass(
        const struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    const struct op_batch *batch = task->batch;

    return !shm_member_waits(batch, batch->set->rank, stage) ||
            shm_all_reached(shm, task, stage);
}

static bool member_is_gone(const struct shm_state *shm, const struct op_batch *batch)
{
    for (int member = 0; member < batch->set->size; member++) {
        const struct shm_rank *rank = shm_member(shm, batch, member);

        /* Pairs with the store in shm_cancel(). */
        if (atomic_load_explicit(&rank->segment->gone, memory_order_seq_cst) != 0) {
            return true;
        }
    }
    return false;
}

static bool is_worked(const struct shm_task *task)
{
    return task->placed && task->stage.done == task->stage.all &&
            task->work.done == task->work.all && task->take.done == task->take.all;
}

/** Does what can be done. @return TUTTI_OK: all is; TUTTI_AGAIN; or what went wrong */
static tutti_status work(struct shm_state *shm, struct shm_task *task, bool *moved)
{
    if (!task->placed) {
        const bool waits = shm_member_works(task->batch, task->batch->set->rank);
        tutti_status status;

        if (waits && !shm_all_reached(shm, task, SHM_ARRIVED)) {
            return TUTTI_AGAIN;
        }
        status = shm_exchange_place(shm, task);
        if (status != TUTTI_OK) {
            return status;
        }
        *moved = true;
    }
    if (shm_work_some(shm, task)) {
        *moved = true;
    }
    return is_worked(task) ? TUTTI_OK : TUTTI_AGAIN;
}

/*
 * Works, unless a member gave up. Sequentially consistent against shm_cancel(): either
 * this rank sees that the other is gone, or the other sees that this one is working.
 */
static tutti_status work_unless_gone(
        struct shm_state *shm, struct shm_task *task, bool *moved)
{
    const struct op_set *set = task->batch->set;
    struct shm_segment *mine = shm->domain->rank[set->world_ranks[set->rank]].segment;
    tutti_status status = TUTTI_AGAIN;

    atomic_store_explicit(&mine->working, 1, memory_order_seq_cst);
    if (!member_is_gone(shm, task->batch)) {
        status = work(shm, task, moved);
    }
    atomic_store_explicit(&mine->working, 0, memory_order_release);
    return status;
}

static tutti_status step_once(struct shm_state *shm, struct shm_task *task, bool *moved)
{
    if (!shm_all_reached(shm, task, SHM_ARRIVED)) {
        return TUTTI_AGAIN;
    }
    shm_once_work(shm, task);
    *moved = true;
    return TUTTI_OK;
}

/** True when nothing can have changed since the last step; one look at most. */
static bool is_waiting(const struct shm_state *shm, struct shm_task *task)
{
    return task->stage.done == task->stage.all &&
            shm_member_works(task->batch, task->batch->set->rank) &&
            !shm_all_reached(shm, task, SHM_ARRIVED);
}

static tutti_status step_working(
        struct shm_state *shm, struct shm_task *task, bool *moved)
{
    tutti_status status = TUTTI_OK;

    if (!is_worked(task)) {
        if (is_waiting(shm, task)) {
            return TUTTI_AGAIN;
        }
        status = work_unless_gone(shm, task, moved);
    }
    if (status == TUTTI_OK) {
        *moved = true;
        shm_reach(shm, task, SHM_RELEASED);
        task->phase = SHM_LEAVING;
    }
    return status;
}

static tutti_status shm_step(void *state, void *task_memory, bool *moved)
{
    struct shm_state *shm = state;
    struct shm_task *task = task_memory;
    tutti_status status = TUTTI_OK;

    if (task->phase == SHM_CLAIMING) {
        status = shm_arrive(shm, task);
        if (status != TUTTI_OK || task->phase == SHM_CLAIMING) {
            return status == TUTTI_OK ? TUTTI_AGAIN : status;
        }
        *moved = true;
    }
    if (task->phase == SHM_ONCE) {
        return step_once(shm, task, moved);
    }
    if (task->phase == SHM_WORKING) {
        status = step_working(shm, task, moved);
    }
    if (status != TUTTI_OK || !may_pass(shm, task, SHM_RELEASED)) {
        return status == TUTTI_OK ? TUTTI_AGAIN : status;
    }
    shm_release_aliases(shm, task);
    shm_ring_give(shm, task);
    *moved = true;
    return TUTTI_OK;
}

/** True when a rank may be touching memory of others; a dead one does not. */
static bool is_working(const struct shm_rank *rank)
{
    return rank->segment != NULL &&
            atomic_load_explicit(&rank->segment->working, memory_order_seq_cst) != 0 &&
            !shm_rank_has_died(rank);
}

static bool shm_cancel(void *state, void *task)
{
    struct shm_state *shm = state;
    const struct shm_domain *domain = shm->domain;
    bool working = false;

    atomic_store_explicit(
            &domain->rank[shm->env->world_rank].segment->gone, 1, memory_order_seq_cst);
    for (int rank = 0; rank < domain->ranks; rank++) {
        working |= rank != shm->env->world_rank && is_working(&domain->rank[rank]);
    }
    if (!working) {
        shm_release_aliases(shm, task);
    }
    return !working;
}

static tutti_status shm_watch(void *state)
{
    const struct shm_state *shm = state;
    const struct shm_domain *domain = shm->domain;

    for (int rank = 0; rank < domain->ranks; rank++) {
        if (rank != shm->env->world_rank && shm_rank_has_died(&domain->rank[rank])) {
            return error_set(TUTTI_ERR_SYSTEM,
                    "rank %d (process %ld on this node) has died", rank,
                    (long)domain->rank[rank].pid);
        }
    }
    return TUTTI_OK;
}

/* Only facts that are equal on all members: whether a peer is mapped is. */
static bool all_are_mapped(const struct shm_state *shm, const struct op_batch *batch)
{
    for (int member = 0; member < batch->set->size; member++) {
        if (shm_member(shm, batch, member)->segment == NULL) {
            return false;
        }
    }
    return true;
}

static bool shm_accepts(const void *state, const struct op_batch *batch)
{
    if (batch->set->index >= OP_SETS_MAX || batch->set->bank >= OP_BANKS ||
            !all_are_mapped(state, batch)) {
        return false;
    }
    return op_is_reduction(batch->collective)
            ? reduce_is_supported(batch->dtype, batch->op)
            : batch->collective != TUTTI_BARRIER;
}

static void shm_close(void *state)
{
    struct shm_state *shm = state;
    const struct shm_rank *mine = &shm->domain->rank[shm->env->world_rank];

    while (shm->rings != NULL) {
        struct shm_ring *next = shm->rings->next;

        shm_free(mine, shm->rings);
        shm->rings = next;
    }
    /* Pairs with the load in shm_rank_has_died(): this process may end from now on. */
    atomic_store_explicit(&mine->segment->closed, 1, memory_order_release);
    mem_free(shm->inputs);
    mem_free(shm->outputs);
    mem_free(shm->views);
    mem_free(shm);
}

/** Ranks that this one shares memory with, itself included. */
static size_t shm_mapped_ranks(const struct shm_domain *domain)
{
    size_t count = 0;

    for (int rank = 0; rank < domain->ranks; rank++) {
        count += domain->rank[rank].segment != NULL;
    }
    return count;
}

static tutti_status shm_open(const struct op_env *env, void **state)
{
    struct shm_state *shm = mem_calloc(1, sizeof *shm);
    size_t size = (size_t)env->world_size;

    if (shm == NULL) {
        goto err_memory;
    }
    shm->env = env;
    shm->domain = env->native;
    shm->ring_bytes = SHM_RING_ROUNDS *
            size_max(env->chunk_bytes, shm_mapped_ranks(shm->domain) * 4096);
    shm->inputs = mem_calloc(2 * size, sizeof *shm->inputs);
    shm->outputs = mem_calloc(2 * size, sizeof *shm->outputs);
    shm->views = mem_calloc(size, sizeof *shm->views);
    if (shm->inputs == NULL || shm->outputs == NULL || shm->views == NULL) {
        goto err_free;
    }
    *state = shm;
    return TUTTI_OK;

err_free:
    mem_free(shm->inputs);
    mem_free(shm->outputs);
    mem_free(shm->views);
    mem_free(shm);
err_memory:
    return error_set(
            TUTTI_ERR_NO_MEMORY, "out of memory for the shared-memory backend");
}

const struct op_backend op_shm = {
    .name = "shm",
    .takes_runs = 1u << TUTTI_ALLREDUCE | 1u << TUTTI_BROADCAST | 1u << TUTTI_REDUCE |
            1u << TUTTI_REDUCESCATTER | 1u << TUTTI_ALLGATHER | 1u << TUTTI_ALLTOALL |
            1u << TUTTI_GATHER | 1u << TUTTI_SCATTER,
    .task_bytes = sizeof(struct shm_task),
    .open = shm_open,
    .close = shm_close,
    .accepts = shm_accepts,
    .start = shm_start,
    .step = shm_step,
    .cancel = shm_cancel,
    .watch = shm_watch,
};
