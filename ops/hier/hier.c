/*
 * The composed backend: which batches it takes, and their way through the stages. The
 * legs of a stage are made in hier_reduce.c and hier_move.c.
 *
 * Nothing here waits: a leg that is not final is stepped again when the batch is. Whoever
 * a leg's backend wakes finds the batch, because ranks are woken and not batches.
 */
#include "ops/hier/hier.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/status.h"
#include "ops/hier/hier_task.h"
#include "ops/reduce/reduce.h"

/* -------------------------------------------------------------------- choice */

/** True for a kind of batch that can be composed, on groups of equal sizes at least. */
static bool kind_is_taken(const struct op_batch *batch)
{
    if (op_is_exchange(batch->collective)) {
        return batch->sizes_known;
    }
    if (!op_is_reduction(batch->collective)) {
        return batch->collective == TUTTI_BROADCAST && batch->run_count == 1;
    }
    return reduce_is_supported(batch->dtype, batch->op) &&
            (batch->op != TUTTI_AVERAGE || dtype_is_float(batch->dtype));
}

/** True when all members are where sets are taken. */
static bool is_within(const int *within, const struct op_set *set)
{
    for (int m = 1; m < set->size && within != NULL; m++) {
        if (within[set->world_ranks[m]] != within[set->world_ranks[0]]) {
            return false;
        }
    }
    return true;
}

static bool hier_accepts(const void *state, const struct op_batch *batch)
{
    const struct hier_state *hier = state;
    const struct hier_config *config = hier->config;
    struct grouping groups;

    if (batch->set->size < config->size_min || batch->set->size < 3 ||
            !kind_is_taken(batch) || !is_within(config->within, batch->set)) {
        return false;
    }
    grouping_make(&groups, batch->set, config->group_of, hier->numbers, hier->places);
    return groups.count > 1 && groups.largest > 1 &&
            (batch->collective != TUTTI_REDUCESCATTER ||
                    groups.smallest == groups.largest);
}

/* ---------------------------------------------------------------------- legs */

/** Starts a leg, or steps it. @return TUTTI_OK: it is final, or there is none */
static tutti_status leg_step(
        const struct hier_side *side, struct hier_leg *leg, bool *moved)
{
    tutti_status status = TUTTI_OK;

    if (leg->wanted) {
        leg->wanted = false;
        *moved = true;
        memset(leg->task, 0, side->ops->task_bytes);
        status = side->ops->start(side->state, leg->task, &leg->batch);
        leg->active = status == TUTTI_OK;
    }
    if (leg->active) {
        status = side->ops->step(side->state, leg->task, moved);
        leg->active = status != TUTTI_OK;
    }
    return status;
}

/** @return true when nobody touches memory for a leg any more */
static bool leg_cancel(const struct hier_side *side, struct hier_leg *leg)
{
    leg->wanted = false;
    leg->active = leg->active && !side->ops->cancel(side->state, leg->task);
    return !leg->active;
}

/* --------------------------------------------------------------------- tasks */

/** Takes `bytes` off the front of memory, on a boundary of a cache line. */
static void *carve(char **memory, size_t bytes)
{
    char *piece = *memory;

    *memory += size_align(bytes, MEM_CACHE_LINE);
    return piece;
}

/** Bytes of a leg in a desk. */
static size_t leg_bytes(
        const struct hier_side *side, size_t members, size_t runs, size_t parts)
{
    return size_align(side->ops->task_bytes, MEM_CACHE_LINE) +
            size_align(members * sizeof(int), MEM_CACHE_LINE) +
            size_align(runs * sizeof(struct op_run), MEM_CACHE_LINE) +
            size_align(parts * sizeof(struct op_part), MEM_CACHE_LINE);
}

static void leg_carve(const struct hier_side *side, struct hier_leg *leg, char **memory,
        size_t members, size_t runs, size_t parts)
{
    leg->task = carve(memory, side->ops->task_bytes);
    leg->world = carve(memory, members * sizeof *leg->world);
    leg->runs = carve(memory, runs * sizeof *leg->runs);
    leg->parts = carve(memory, parts * sizeof *leg->parts);
}

static struct hier_room room_of(const struct hier_task *task)
{
    struct hier_room room;

    if (op_is_reduction(task->batch->collective)) {
        hier_reduce_room(task, &room);
    } else if (task->batch->collective == TUTTI_BROADCAST) {
        hier_broadcast_room(&room);
    } else {
        hier_exchange_room(task, &room);
    }
    return room;
}

/**
 * Groups the members, and takes tables of the size that this needs. The sizes cannot
 * overflow: the batch has tables of about as many parts.
 */
static bool desk_take(struct hier_state *hier, struct hier_task *task)
{
    const struct op_set *set = task->batch->set;
    const size_t members = (size_t)set->size;
    const size_t places =
            size_align(grouping_entries(set->size) * sizeof(int), MEM_CACHE_LINE);
    struct hier_room room;
    char *memory;

    grouping_make(
            &task->groups, set, hier->config->group_of, hier->numbers, hier->places);
    room = room_of(task);
    memory = hier_pool_take(&hier->desks,
            places +
                    leg_bytes(
                            &hier->inner, members, room.inner_runs, room.inner_parts) +
                    leg_bytes(&hier->across, members, room.across_runs,
                            room.across_parts));
    task->desk = memory;
    if (memory == NULL) {
        return false;
    }
    grouping_make(&task->groups, set, hier->config->group_of, hier->numbers,
            carve(&memory, places));
    leg_carve(&hier->inner, &task->inner, &memory, members, room.inner_runs,
            room.inner_parts);
    leg_carve(&hier->across, &task->across, &memory, members, room.across_runs,
            room.across_parts);
    return true;
}

static void let_go(struct hier_state *hier, struct hier_task *task)
{
    hier_pool_give(&hier->scratch, task->scratch);
    hier_pool_give(&hier->desks, task->desk);
    task->scratch = NULL;
    task->desk = NULL;
}

static void enter_stage(struct hier_task *task, int stage)
{
    task->stage = stage;
    if (op_is_reduction(task->batch->collective)) {
        hier_reduce_stage(task);
    } else if (task->batch->collective == TUTTI_BROADCAST) {
        hier_broadcast_stage(task);
    } else {
        hier_exchange_stage(task);
    }
}

static int stages_of(tutti_collective collective)
{
    if (op_is_reduction(collective)) {
        return 3;
    }
    return collective == TUTTI_BROADCAST ? 2 : 1;
}

/* Nothing is begun here that would have to be undone: legs start in the first step. */
static tutti_status hier_start(
        void *state, void *task_memory, const struct op_batch *batch)
{
    struct hier_state *hier = state;
    struct hier_task *task = task_memory;

    *task = (struct hier_task){ .batch = batch,
        .stages = stages_of(batch->collective) };
    if (!desk_take(hier, task)) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory to run a batch: %s of %zu tensors",
                tutti_collective_name(batch->collective), batch->run_count);
    }
    if (op_is_reduction(batch->collective)) {
        const size_t bytes = hier_reduce_init(task);

        task->scratch = hier_pool_take(&hier->scratch, bytes);
        if (task->scratch == NULL) {
            let_go(hier, task);
            return error_set(TUTTI_ERR_NO_MEMORY,
                    "no memory for %zu bytes of partial results", bytes);
        }
    }
    enter_stage(task, 0);
    return TUTTI_OK;
}

static tutti_status hier_step(void *state, void *task_memory, bool *moved)
{
    struct hier_state *hier = state;
    struct hier_task *task = task_memory;

    for (;;) {
        const tutti_status inner = leg_step(&hier->inner, &task->inner, moved);
        tutti_status across = inner;

        if (inner == TUTTI_OK || inner == TUTTI_AGAIN) {
            across = leg_step(&hier->across, &task->across, moved);
        }
        if (across != TUTTI_OK || inner != TUTTI_OK) {
            return across != TUTTI_OK ? across : inner;
        }
        *moved = true;
        if (task->stage + 1 == task->stages) {
            let_go(hier, task);
            return TUTTI_OK;
        }
        enter_stage(task, task->stage + 1);
    }
}

static bool hier_cancel(void *state, void *task_memory)
{
    struct hier_state *hier = state;
    struct hier_task *task = task_memory;
    const bool inner_is_over = leg_cancel(&hier->inner, &task->inner);
    const bool across_is_over = leg_cancel(&hier->across, &task->across);

    if (!inner_is_over || !across_is_over) {
        return false;
    }
    /* No batch takes the memory again; messages may still come in until close(). */
    let_go(hier, task);
    return true;
}

static tutti_status hier_watch(void *state)
{
    struct hier_state *hier = state;
    tutti_status status = TUTTI_OK;

    if (hier->inner.ops->watch != NULL) {
        status = hier->inner.ops->watch(hier->inner.state);
    }
    if (status == TUTTI_OK && hier->across.ops->watch != NULL) {
        status = hier->across.ops->watch(hier->across.state);
    }
    return status;
}

/* --------------------------------------------------------------------- state */

static tutti_status side_open(struct hier_side *side, const struct op_env *env,
        const struct op_backend *ops, void *native)
{
    side->ops = ops;
    side->env = *env;
    side->env.native = native;
    return ops->open(&side->env, &side->state);
}

static tutti_status open_sides(struct hier_state *hier, const struct op_env *env)
{
    const struct hier_config *config = hier->config;
    tutti_status status =
            side_open(&hier->inner, env, config->inner, config->inner_native);

    if (status != TUTTI_OK) {
        return status;
    }
    status = side_open(&hier->across, env, config->across, config->across_native);
    if (status != TUTTI_OK) {
        hier->inner.ops->close(hier->inner.state);
    }
    return status;
}

static void state_free(struct hier_state *hier)
{
    mem_free(hier->numbers);
    mem_free(hier->places);
    mem_free(hier);
}

static tutti_status hier_open(const struct op_env *env, void **state)
{
    const struct hier_config *config = env->native;
    const size_t ranks = (size_t)env->world_size;
    struct hier_state *hier = mem_calloc(1, sizeof *hier);
    tutti_status status;

    if (hier == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a composed backend");
    }
    hier->config = config;
    hier->scratch = (struct hier_pool){
        .alloc = config->alloc, .give_back = config->give_back, .user = config->user
    };
    hier->numbers = mem_calloc(ranks, sizeof *hier->numbers);
    hier->places = mem_calloc(grouping_entries(env->world_size), sizeof *hier->places);
    if (hier->numbers == NULL || hier->places == NULL) {
        state_free(hier);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a composed backend");
    }
    for (size_t i = 0; i < ranks; i++) {
        hier->numbers[i] = -1;
    }
    status = open_sides(hier, env);
    if (status != TUTTI_OK) {
        state_free(hier);
        return status;
    }
    *state = hier;
    return TUTTI_OK;
}

/* Memory goes last: others may write into it until their backend is closed. */
static void hier_close(void *state)
{
    struct hier_state *hier = state;

    hier->across.ops->close(hier->across.state);
    hier->inner.ops->close(hier->inner.state);
    hier_pool_fini(&hier->scratch);
    hier_pool_fini(&hier->desks);
    state_free(hier);
}

const struct op_backend op_hier = {
    .name = "hier",
    .takes_runs = 1u << TUTTI_ALLREDUCE | 1u << TUTTI_REDUCE |
            1u << TUTTI_REDUCESCATTER | 1u << TUTTI_ALLGATHER | 1u << TUTTI_ALLTOALL |
            1u << TUTTI_GATHER | 1u << TUTTI_SCATTER,
    .task_bytes = sizeof(struct hier_task),
    .open = hier_open,
    .close = hier_close,
    .accepts = hier_accepts,
    .start = hier_start,
    .step = hier_step,
    .cancel = hier_cancel,
    .watch = hier_watch,
};
