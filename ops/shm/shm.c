/*
 * Batches between ranks that can address each other's memory.
 *
 * Allreduce, two ranks, each tensor in two slices:
 *
 *           rank 0                              rank 1
 *   arrive: publishes where its runs lie        likewise
 *   work:   reads slice 0 of both inputs,       reads slice 1 of both inputs,
 *           writes slice 0 of both outputs      writes slice 1 of both outputs
 *   release, and leave when all have            likewise
 *
 * A slice begins when all members have arrived and a rank leaves when all have released,
 * so every input is complete when it is read and every output when its owner goes on.
 * It is safe in place: slice i of any input is read by one rank only, before that rank
 * writes slice i of the outputs.
 *
 * Broadcast: the root arrives, the others copy from it and release, the root leaves when
 * all have. Nobody waits for a rank that only copies, so it leaves at once.
 *
 * Small batches have fewer slices than the set has ranks; a rank without one releases
 * the batch when it arrives. The ranks take turns at the slices.
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

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "ops/runs.h"
#include "ops/shm/segment.h"

#define CACHE_LINE ((size_t)64)
/* Below this one rank is as fast as several, and less ringing. Measured with two. */
#define SLICE_BYTES_MIN ((size_t)2048)
/* Bytes of one operand that a step works on at least, however many operands there are. */
#define STEP_BYTES_MIN ((size_t)4096)
/* Runs that a table of a slot has room for at least. */
#define TABLE_RUNS_MIN ((size_t)16)

struct shm_state {
    const struct op_env *env; /* borrowed */
    struct shm_domain *domain; /* borrowed */
    const void **inputs; /* [world_size] scratch of a step; owned */
    void **outputs; /* [world_size] likewise */
    size_t table_runs; /* room of the largest table of a slot: what others grow to */
};

enum shm_phase {
    SHM_GATHERING,
    SHM_WORKING,
    SHM_LEAVING
};

struct shm_task {
    const struct op_batch *batch;
    enum shm_phase phase;
    bool waits[SHM_STAGES]; /* this rank waits until all awaited reached the stage */
    int seen[SHM_STAGES]; /* members, from the first awaited, that reached it */
    struct runs_cursor rest; /* what this rank has yet to reduce or copy */
};

/** A range of members of a set. */
struct members {
    int first;
    int count;
};

/** The members whose reaching a stage matters to others. */
static struct members awaited_members(
        const struct op_batch *batch, enum shm_stage stage)
{
    if (batch->collective == TUTTI_BROADCAST && stage == SHM_ARRIVED) {
        return (struct members){ .first = batch->root, .count = 1 };
    }
    return (struct members){ .first = 0, .count = batch->set->size };
}

/** A range of the elements of a batch. */
struct slice {
    size_t first;
    size_t count;
};

/** The elements that a member reduces. */
static struct slice slice_of(const struct op_batch *batch, int member)
{
    size_t bytes = tutti_dtype_size(batch->dtype);
    size_t size = (size_t)batch->set->size;
    size_t turn = (size_t)((batch->sequence + (uint64_t)member) % size);
    size_t share = batch->count / size + (batch->count % size != 0);
    size_t length =
            size_max(size_align(share, CACHE_LINE / bytes), SLICE_BYTES_MIN / bytes);
    size_t first = size_min(batch->count, turn * length);

    return (struct slice){ .first = first,
        .count = size_min(length, batch->count - first) };
}

/** The elements that a member reduces or copies. */
static struct slice work_of(const struct op_batch *batch, int member)
{
    if (batch->collective == TUTTI_BROADCAST) {
        return (struct slice){ .count = member == batch->root ? 0 : batch->count };
    }
    return slice_of(batch, member);
}

/** True when a member waits until the awaited members have reached a stage. */
static bool member_waits(const struct op_batch *batch, int member, enum shm_stage stage)
{
    if (stage == SHM_ARRIVED) {
        return work_of(batch, member).count > 0;
    }
    return batch->collective == TUTTI_ALLREDUCE || member == batch->root;
}

static const struct shm_rank *member_rank(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    return &shm->domain->rank[batch->set->world_ranks[member]];
}

static bool member_reached(const struct shm_state *shm, const struct op_batch *batch,
        int member, enum shm_stage stage)
{
    const struct shm_slot *slot = shm_slot_of(member_rank(shm, batch, member), batch);

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
    struct shm_slot *slot = shm_slot_of(member_rank(shm, batch, set->rank), batch);

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

        while (capacity < run_count) {
            capacity *= 2;
        }
        table = mem_resize(table, capacity, sizeof *table);
        if (table == NULL) {
            return NULL;
        }
        slot->table = table;
        slot->capacity = capacity;
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
    }
    slot->runs = shm_offset(mine, runs);
    return TUTTI_OK;
}

static tutti_status shm_start(
        void *state, void *task_memory, const struct op_batch *batch)
{
    struct shm_state *shm = state;
    struct shm_task *task = task_memory;
    const struct op_set *set = batch->set;
    struct shm_rank *mine = &shm->domain->rank[set->world_ranks[set->rank]];
    struct shm_slot *slot = shm_slot_of(mine, batch);
    struct slice work = work_of(batch, set->rank);
    tutti_status status;

    mine->rows = mine->rows > set->index ? mine->rows : set->index + 1;
    status = slot_fill(shm, mine, slot, batch);
    if (status != TUTTI_OK) {
        return status;
    }
    *task = (struct shm_task){
        .batch = batch,
        .rest = runs_range(batch, work.first, work.count),
        .waits[SHM_ARRIVED] = member_waits(batch, set->rank, SHM_ARRIVED),
        .waits[SHM_RELEASED] = member_waits(batch, set->rank, SHM_RELEASED),
    };
    slot_claim(slot, set);
    if (batch->collective == TUTTI_ALLREDUCE || set->rank == batch->root) {
        reach(shm, task, SHM_ARRIVED);
    }
    return TUTTI_OK;
}

/** The table of runs that a member has published. */
static const struct shm_run *member_runs(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    const struct shm_rank *rank = member_rank(shm, batch, member);

    return shm_address(rank, shm_slot_of(rank, batch)->runs);
}

/** Reduces the elements at the cursor from all inputs to all outputs. */
static void reduce_piece(
        struct shm_state *shm, const struct shm_task *task, size_t piece)
{
    const struct op_batch *batch = task->batch;
    const struct reduce_spec spec = { .dtype = batch->dtype,
        .op = batch->op,
        .prescale = batch->prescale,
        .postscale = batch->postscale };
    size_t offset = task->rest.offset * tutti_dtype_size(batch->dtype);
    int size = batch->set->size;

    for (int member = 0; member < size; member++) {
        const struct shm_rank *rank = member_rank(shm, batch, member);
        const struct shm_run *run = &member_runs(shm, batch, member)[task->rest.run];

        shm->inputs[member] = shm_address(rank, run->input + offset);
        shm->outputs[member] = shm_address(rank, run->output + offset);
    }
    reduce_tree(&spec, shm->inputs, size, shm->outputs, size, piece);
}

/** Copies the elements at the cursor from the root. */
static void copy_piece(
        const struct shm_state *shm, const struct shm_task *task, size_t piece)
{
    const struct op_batch *batch = task->batch;
    size_t bytes = tutti_dtype_size(batch->dtype);
    size_t offset = task->rest.offset * bytes;
    size_t run = task->rest.run;
    const struct shm_rank *root = member_rank(shm, batch, batch->root);
    const void *from =
            shm_address(root, member_runs(shm, batch, batch->root)[run].input + offset);

    memcpy((char *)batch->runs[run].output + offset, from, piece * bytes);
}

/** Works on the rest of this rank's share, for about a chunk of memory. */
static void work(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    bool copies = batch->collective == TUTTI_BROADCAST;
    size_t operands = copies ? 1 : (size_t)batch->set->size;
    size_t step_bytes = size_max(shm->env->chunk_bytes / operands, STEP_BYTES_MIN);
    size_t budget = step_bytes / tutti_dtype_size(batch->dtype);

    while (task->rest.left > 0 && budget > 0) {
        size_t piece = runs_piece(&task->rest, batch, budget);

        if (copies) {
            copy_piece(shm, task, piece);
        } else {
            reduce_piece(shm, task, piece);
        }
        runs_advance(&task->rest, batch, piece);
        budget -= piece;
    }
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
        const struct shm_rank *rank = member_rank(shm, batch, member);

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
static void work_unless_gone(struct shm_state *shm, struct shm_task *task, bool *moved)
{
    const struct op_set *set = task->batch->set;
    struct shm_segment *mine = shm->domain->rank[set->world_ranks[set->rank]].segment;

    atomic_store_explicit(&mine->working, 1, memory_order_seq_cst);
    if (!member_is_gone(shm, task->batch)) {
        work(shm, task);
        *moved = true;
    }
    atomic_store_explicit(&mine->working, 0, memory_order_release);
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
        work_unless_gone(shm, task, moved);
        if (task->rest.left > 0) {
            return TUTTI_AGAIN;
        }
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
    if (batch->collective == TUTTI_ALLREDUCE) {
        return reduce_is_supported(batch->dtype, batch->op);
    }
    return batch->collective == TUTTI_BROADCAST;
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
    .capabilities = OP_TAKES_RUNS,
    .task_bytes = sizeof(struct shm_task),
    .open = shm_open,
    .close = shm_close,
    .accepts = shm_accepts,
    .start = shm_start,
    .step = shm_step,
    .cancel = shm_cancel,
};
