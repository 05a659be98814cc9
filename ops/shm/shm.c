/*
 * Batches between ranks that can address each other's memory: who waits for whom. The
 * work in between is done in shm_reduce.c and shm_copy.c.
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
 * Nothing blocks. Whoever completes what others wait for wakes those, and only then: the
 * earlier arrivals wake nobody. To know that one is the last takes sequential
 * consistency: each rank publishes its own stage and then looks at the others', and of
 * the ranks that do so at the same time at least one must see all.
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

/* Runs that a table of a slot has room for, at least and at most. */
#define TABLE_RUNS_MIN ((size_t)16)
#define TABLE_RUNS_MAX ((size_t)1 << 31)

/** A range of members of a set. */
struct members {
    int first;
    int count;
};

/** True when only the root's memory is read. */
static bool is_from_root(const struct op_batch *batch)
{
    return batch->collective == TUTTI_BROADCAST || batch->collective == TUTTI_SCATTER;
}

/** The members whose reaching a stage matters to others. */
static struct members awaited_members(
        const struct op_batch *batch, enum shm_stage stage)
{
    if ((stage == SHM_ARRIVED && is_from_root(batch)) ||
            (stage == SHM_RELEASED && batch->collective == TUTTI_GATHER)) {
        return (struct members){ .first = batch->root, .count = 1 };
    }
    return (struct members){ .first = 0, .count = batch->set->size };
}

/** True when a member works with the memory of others. */
static bool member_works(const struct op_batch *batch, int member)
{
    if (is_from_root(batch)) {
        return member != batch->root;
    }
    if (batch->collective == TUTTI_GATHER) {
        return member == batch->root;
    }
    return op_is_exchange(batch->collective) || shm_reduce_has_share(batch, member);
}

/** True when a member waits until the awaited members have reached a stage. */
static bool member_waits(const struct op_batch *batch, int member, enum shm_stage stage)
{
    if (stage == SHM_ARRIVED) {
        return member_works(batch, member);
    }
    if (is_from_root(batch)) {
        return member == batch->root;
    }
    return batch->collective != TUTTI_GATHER || member != batch->root;
}

static bool member_reached(const struct shm_state *shm, const struct op_batch *batch,
        int member, enum shm_stage stage)
{
    const struct shm_slot *slot = shm_slot_of(shm_member(shm, batch, member), batch);

    /* Pairs with the release in slot_claim(): counts of a former set are gone. */
    if (atomic_load_explicit(&slot->set, memory_order_acquire) != batch->set->id) {
        return false;
    }
    /*
     * Pairs with the store in reach(), whose data it makes visible; sequentially
     * consistent so that the last one knows it, see the top.
     */
    return atomic_load_explicit(&slot->reached[stage], memory_order_seq_cst) >
            batch->sequence;
}

/** True when all awaited members have reached a stage; looks at each only once. */
static bool all_reached(
        const struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    struct members awaited = awaited_members(task->batch, stage);

    while (task->seen[stage] < awaited.count) {
        int member = awaited.first + task->seen[stage];

        if (!member_reached(shm, task->batch, member, stage)) {
            return false;
        }
        task->seen[stage]++;
    }
    return true;
}

/** Publishes that this rank has reached a stage, and wakes who can go on by that. */
static void reach(struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    const struct op_batch *batch = task->batch;
    const struct op_set *set = batch->set;
    const struct members awaited = awaited_members(batch, stage);
    struct shm_slot *slot = shm_slot_of(shm_member(shm, batch, set->rank), batch);

    if (set->rank < awaited.first || set->rank >= awaited.first + awaited.count) {
        return;
    }
    /* Pairs with the load in member_reached(). */
    atomic_store_explicit(
            &slot->reached[stage], batch->sequence + 1, memory_order_seq_cst);
    if (!all_reached(shm, task, stage)) {
        return;
    }
    for (int member = 0; member < set->size; member++) {
        if (member != set->rank && member_waits(batch, member, stage)) {
            shm->env->wake(shm->env->wake_user, set->world_ranks[member]);
        }
    }
}

/** Makes a slot of this rank count for a set. */
static void slot_claim(struct shm_slot *slot, const struct op_set *set)
{
    if (atomic_load_explicit(&slot->set, memory_order_relaxed) == set->id) {
        return;
    }
    for (int stage = 0; stage < SHM_STAGES; stage++) {
        atomic_store_explicit(&slot->reached[stage], 0, memory_order_relaxed);
    }
    /* Pairs with the acquire in member_reached(). */
    atomic_store_explicit(&slot->set, set->id, memory_order_release);
}

/** Room for the runs of a batch in a slot of this rank; NULL when out of memory. */
static struct shm_run *slot_table(
        struct shm_state *shm, struct shm_slot *slot, size_t run_count)
{
    struct shm_run *table = slot->table;

    if (run_count == 1) {
        return &slot->single;
    }
    if (run_count > slot->capacity) {
        size_t capacity = size_max(shm->table_runs, TABLE_RUNS_MIN);

        while (capacity < run_count && capacity < TABLE_RUNS_MAX) {
            capacity *= 2;
        }
        if (capacity < run_count) {
            return NULL;
        }
        table = mem_resize(table, capacity, sizeof *table);
        if (table == NULL) {
            return NULL;
        }
        slot->table = table;
        slot->capacity = (uint32_t)capacity;
        shm->table_runs = capacity;
    }
    return table;
}

/** Writes where the runs of a batch lie into a slot of this rank. */
static tutti_status slot_fill(struct shm_state *shm, const struct shm_rank *mine,
        struct shm_slot *slot, const struct op_batch *batch)
{
    struct shm_run *runs = slot_table(shm, slot, batch->run_count);

    if (runs == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "out of memory for a batch of %zu tensors", batch->run_count);
    }
    for (size_t i = 0; i < batch->run_count; i++) {
        runs[i].input = shm_offset(mine, batch->runs[i].input);
        runs[i].output = shm_offset(mine, batch->runs[i].output);
        runs[i].sends = shm_offset(mine, batch->runs[i].sends);
    }
    slot->runs = shm_offset(mine, runs);
    return TUTTI_OK;
}

/** What a rank has to do of a batch. */
static void work_init(struct shm_task *task)
{
    const struct op_batch *batch = task->batch;

    if (op_is_exchange(batch->collective)) {
        task->exchange = (struct shm_exchange){ .placed = batch->sizes_known };
    } else if (batch->collective != TUTTI_BROADCAST) {
        task->rest = shm_reduce_share(batch);
    } else if (batch->set->rank != batch->root) {
        task->rest = runs_range(batch, 0, batch->count);
    }
}

static tutti_status shm_start(
        void *state, void *task_memory, const struct op_batch *batch)
{
    struct shm_state *shm = state;
    struct shm_task *task = task_memory;
    const struct op_set *set = batch->set;
    struct shm_rank *mine = &shm->domain->rank[set->world_ranks[set->rank]];
    struct shm_slot *slot = shm_slot_of(mine, batch);
    tutti_status status;

    mine->rows = mine->rows > set->index ? mine->rows : set->index + 1;
    status = slot_fill(shm, mine, slot, batch);
    if (status != TUTTI_OK) {
        return status;
    }
    *task = (struct shm_task){ .batch = batch };
    work_init(task);
    slot_claim(slot, set);
    reach(shm, task, SHM_ARRIVED);
    return TUTTI_OK;
}

/** True when this rank has work left, be it with its own memory alone. */
static bool has_work(const struct shm_task *task)
{
    if (op_is_exchange(task->batch->collective)) {
        return task->exchange.visited < task->batch->set->size;
    }
    return task->rest.left > 0;
}

static tutti_status work(struct shm_state *shm, struct shm_task *task)
{
    if (op_is_exchange(task->batch->collective)) {
        return shm_exchange_work(shm, task);
    }
    return task->batch->collective == TUTTI_BROADCAST ? shm_broadcast_work(shm, task)
                                                      : shm_reduce_work(shm, task);
}

/** True when this rank need not wait for a stage, or no longer. */
static bool may_pass(
        const struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    const struct op_batch *batch = task->batch;

    return !member_waits(batch, batch->set->rank, stage) ||
            all_reached(shm, task, stage);
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
        status = work(shm, task);
        *moved = true;
    }
    atomic_store_explicit(&mine->working, 0, memory_order_release);
    return status;
}

static tutti_status shm_step(void *state, void *task_memory, bool *moved)
{
    struct shm_state *shm = state;
    struct shm_task *task = task_memory;

    if (task->phase == SHM_GATHERING) {
        if (!may_pass(shm, task, SHM_ARRIVED)) {
            return TUTTI_AGAIN;
        }
        task->phase = SHM_WORKING;
    }
    if (task->phase == SHM_WORKING) {
        tutti_status status = TUTTI_OK;

        if (has_work(task)) {
            status = work_unless_gone(shm, task, moved);
        }
        if (status != TUTTI_OK) {
            return status;
        }
        *moved = true;
        reach(shm, task, SHM_RELEASED);
        task->phase = SHM_LEAVING;
    }
    if (!may_pass(shm, task, SHM_RELEASED)) {
        return TUTTI_AGAIN;
    }
    *moved = true;
    return TUTTI_OK;
}

static bool shm_cancel(void *state, void *task)
{
    struct shm_state *shm = state;
    const struct shm_domain *domain = shm->domain;
    bool working = false;

    (void)task;
    atomic_store_explicit(
            &domain->rank[shm->env->world_rank].segment->gone, 1, memory_order_seq_cst);
    for (int rank = 0; rank < domain->ranks; rank++) {
        if (rank != shm->env->world_rank) {
            working |= atomic_load_explicit(&domain->rank[rank].segment->working,
                               memory_order_seq_cst) != 0;
        }
    }
    return !working;
}

static bool shm_accepts(const void *state, const struct op_batch *batch)
{
    (void)state;
    if (batch->set->index >= OP_SETS_MAX) {
        return false;
    }
    switch (batch->collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE:
    case TUTTI_REDUCESCATTER:
        return reduce_is_supported(batch->dtype, batch->op);
    case TUTTI_BROADCAST:
    case TUTTI_ALLGATHER:
    case TUTTI_ALLTOALL:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
        return true;
    case TUTTI_BARRIER:
        break;
    }
    return false;
}

static void shm_close(void *state)
{
    struct shm_state *shm = state;

    mem_free(shm->inputs);
    mem_free(shm->outputs);
    mem_free(shm);
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
    shm->inputs = mem_calloc(size, sizeof *shm->inputs);
    shm->outputs = mem_calloc(size, sizeof *shm->outputs);
    if (shm->inputs == NULL || shm->outputs == NULL) {
        goto err_close;
    }
    *state = shm;
    return TUTTI_OK;

err_close:
    shm_close(shm);
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
};
