/*
 * The composed backend: which batches it takes, and their way through the stages. The
 * legs of a stage are made in hier_reduce.c and hier_move.c.
 *
 * Nothing here waits: a leg that is not final is stepped again when the batch is. Whoever
 * a leg's backend wakes finds the batch, because ranks are woken and not batches.
 */
#include "ops/hier/hier.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/status.h"
#include "ops/hier/hier_task.h"
#include "ops/reduce/reduce.h"
#include "ops/runs.h"

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

/* Sets that it does not divide are in one group, or have a group for each member. */
static bool hier_follows_ranks(const void *state, const struct op_set *set)
{
    const struct hier_state *hier = state;
    const struct hier_config *config = hier->config;

    return set->size < config->size_min || !is_within(config->within, set) ||
            grouping_follows_ranks(set, config->group_of);
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

/* Each lane carries its share across. */
static void hier_explain(
        const void *state, const struct op_batch *batch, char *text, size_t size)
{
    const struct hier_state *hier = state;
    const struct hier_side *across = &hier->across;
    struct op_batch share = *batch;
    struct op_set lane = *batch->set;
    struct grouping groups;
    size_t used;
    size_t length;

    grouping_make(
            &groups, batch->set, hier->config->group_of, hier->numbers, hier->places);
    length = hier_slice_length(batch, &groups);
    lane.size = groups.count;
    share.set = &lane;
    share.count = size_min(length, batch->count);
    (void)snprintf(text, size, "%d groups; slices across: %zu, %s", groups.count,
            (batch->count - 1) / length + 1, across->ops->name);
    used = strlen(text);
    if (across->ops->explain != NULL && used + 2 < size) {
        memcpy(text + used, ": ", 3);
        across->ops->explain(across->state, &share, text + used + 2, size - used - 2);
    }
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

/* -------------------------------------------------------------------- pieces */

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

/** Makes a task a piece of its batch, in runs of its own. */
static void piece_make(
        struct hier_task *task, size_t first, size_t length, struct op_run *runs)
{
    const struct op_batch *batch = task->batch;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    struct runs_cursor at =
            runs_range(batch, 0, first, size_min(length, batch->count - first));
    size_t count;

    task->own = *batch;
    task->own.runs = runs;
    task->own.run_count = 0;
    task->own.count = at.left;
    for (; (count = runs_piece(&at, batch, at.left)) > 0;
            runs_advance(&at, batch, count)) {
        const struct op_run *run = &batch->runs[at.run];
        struct op_run *made = &runs[task->own.run_count++];

        *made = *run;
        made->count = count;
        if (run->input != NULL) {
            made->input = (const char *)run->input + at.offset * bytes;
        }
        if (run->output != NULL) {
            made->output = (char *)run->output + at.offset * bytes;
        }
    }
    task->batch = &task->own;
}

/**
 * Groups the members, and takes tables of the size that this needs: for a piece of a
 * flight those of all of it. The sizes cannot overflow: the batch has tables of about as
 * many parts.
 */
static bool desk_take(struct hier_state *hier, const struct hier_flight *flight,
        struct hier_task *task)
{
    const struct op_set *set = task->batch->set;
    const size_t runs = task->piece > 0
            ? size_align(task->batch->run_count * sizeof(struct op_run), MEM_CACHE_LINE)
            : 0;
    const size_t members = (size_t)set->size;
    const size_t places =
            size_align(grouping_entries(set->size) * sizeof(int), MEM_CACHE_LINE);
    struct hier_room room;
    char *memory;

    grouping_make(
            &task->groups, set, hier->config->group_of, hier->numbers, hier->places);
    room = room_of(task);
    memory = hier_pool_take(&hier->desks,
            places + runs +
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
    if (task->piece > 0) {
        piece_make(task, (task->piece - 1) * flight->length, flight->length,
                carve(&memory, runs));
    }
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
    return collective == TUTTI_BROADCAST || collective == TUTTI_ALLGATHER ? 2 : 1;
}

/**
 * Begins the next piece. Nothing is begun that would have to be undone: legs start in the
 * first step.
 */
static tutti_status begin_piece(struct hier_state *hier, struct hier_flight *flight)
{
    const struct op_batch *batch = flight->batch;
    struct hier_task *task = &flight->tasks[flight->begun % HIER_PIECES];

    *task = (struct hier_task){ .batch = batch,
        .piece = flight->pieces > 1 ? flight->begun + 1 : 0,
        .stages = stages_of(batch->collective) };
    if (!desk_take(hier, flight, task)) {
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
    flight->begun++;
    return TUTTI_OK;
}

/** Moves a piece on. @return TUTTI_OK: it is over, and its desk is gone */
static tutti_status step_piece(
        struct hier_state *hier, struct hier_task *task, bool *moved)
{
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

/** @return true when nobody touches memory for a piece any more */
static bool cancel_piece(struct hier_state *hier, struct hier_task *task)
{
    const bool inner_is_over = leg_cancel(&hier->inner, &task->inner);
    const bool across_is_over = leg_cancel(&hier->across, &task->across);

    if (!inner_is_over || !across_is_over) {
        return false;
    }
    /* No batch takes the memory again; messages may still come in until close(). */
    let_go(hier, task);
    return true;
}

/* ------------------------------------------------------------------- batches */

/** Decides in which pieces a batch is done. Equal on all ranks. */
static void cut(const struct hier_state *hier, struct hier_flight *flight)
{
    const size_t least =
            size_min(hier->config->piece_chunks * hier->across.env.chunk_bytes,
                    OP_PIECE_BYTES_MAX / 2);
    const struct op_batch *batch = flight->batch;
    const size_t bytes = tutti_dtype_size(batch->dtype);
    const bool is_cut = least > 0 &&
            batch->count <= OP_PIECES_MAX * (OP_PIECE_BYTES_MAX / 2) / bytes &&
            (batch->collective == TUTTI_ALLREDUCE ||
                    batch->collective == TUTTI_REDUCE ||
                    batch->collective == TUTTI_BROADCAST);

    flight->pieces = 1;
    if (is_cut && batch->count > least / bytes) {
        const size_t share = (batch->count - 1) / OP_PIECES_MAX + 1;

        flight->length =
                size_align(size_max(share, least / bytes), MEM_CACHE_LINE / bytes);
        flight->pieces = (uint32_t)((batch->count - 1) / flight->length + 1);
    }
}

static tutti_status hier_start(
        void *state, void *task_memory, const struct op_batch *batch)
{
    struct hier_state *hier = state;
    struct hier_flight *flight = task_memory;

    *flight = (struct hier_flight){ .batch = batch };
    cut(hier, flight);
    return begin_piece(hier, flight);
}

/** Steps the pieces under way. @return TUTTI_OK: the first of them is over */
static tutti_status step_flight(
        struct hier_state *hier, struct hier_flight *flight, bool *moved)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t piece = flight->done; piece < flight->begun; piece++) {
        struct hier_task *task = &flight->tasks[piece % HIER_PIECES];

        status = task->desk != NULL ? step_piece(hier, task, moved) : TUTTI_OK;
        if (status != TUTTI_OK && status != TUTTI_AGAIN) {
            return status;
        }
    }
    return flight->tasks[flight->done % HIER_PIECES].desk == NULL ? TUTTI_OK
                                                                  : TUTTI_AGAIN;
}

static tutti_status hier_step(void *state, void *task_memory, bool *moved)
{
    struct hier_state *hier = state;
    struct hier_flight *flight = task_memory;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && flight->done < flight->pieces) {
        while (status == TUTTI_OK && flight->begun < flight->pieces &&
                flight->begun - flight->done < HIER_PIECES) {
            status = begin_piece(hier, flight);
        }
        if (status == TUTTI_OK) {
            status = step_flight(hier, flight, moved);
        }
        flight->done += status == TUTTI_OK;
    }
    return status;
}

static bool hier_cancel(void *state, void *task_memory)
{
    struct hier_flight *flight = task_memory;
    bool is_over = true;

    for (uint32_t piece = flight->done; piece < flight->begun; piece++) {
        is_over &= cancel_piece(state, &flight->tasks[piece % HIER_PIECES]);
    }
    return is_over;
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
    .task_bytes = sizeof(struct hier_flight),
    .open = hier_open,
    .close = hier_close,
    .accepts = hier_accepts,
    .follows_ranks = hier_follows_ranks,
    .explain = hier_explain,
    .start = hier_start,
    .step = hier_step,
    .cancel = hier_cancel,
    .watch = hier_watch,
};
