/*
 * Messages: opening, the choice of algorithm, and giving up.
 *
 *     reduction_gather.c   small: whole operands to those who want the result, one hop
 *     reduction_doubling.c small, of many ranks: partial sums up a tree
 *     reduction_direct.c   large: direct reduce-scatter and allgather, chunked
 *     cost.h               which of them a link makes fastest
 *     broadcast_tree.c     binomial tree or chain, chunked
 *     exchange.c           allgather, alltoall, gather, scatter: parts, one hop
 *     task.h               how messages of different batches are kept apart
 *
 * The choice looks only at the batch's size and kind and at configuration that is equal
 * on all ranks.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/p2p/cost.h"
#include "ops/p2p/p2p.h"
#include "ops/p2p/task.h"

/* The largest reduction that exchanges whole operands. */
static size_t gather_limit(const struct p2p_state *state)
{
    switch (state->env->config->algorithm) {
    case CONFIG_ALGORITHM_GATHER:
        return SIZE_MAX;
    case CONFIG_ALGORITHM_DOUBLING:
    case CONFIG_ALGORITHM_DIRECT:
        return 0;
    case CONFIG_ALGORITHM_AUTO:
        break;
    }
    return state->env->config->gather_bytes;
}

static_assert(OP_MESSAGE_BANKS * OP_SETS_MAX * OP_INFLIGHT_MAX * TASK_PHASES <=
                FABRIC_TAG_MAX + 1,
        "the fabric has tags up to FABRIC_TAG_MAX");

/* Narrower than float32 only between nodes: within one the rounding would cost more. */
static tutti_dtype configured_wire(const struct op_env *env)
{
    if (env->link.message_bytes == 0) {
        return TUTTI_FLOAT32;
    }
    switch ((enum config_wire_dtype)env->config->wire_dtype) {
    case CONFIG_WIRE_DTYPE_BFLOAT16:
        return TUTTI_BFLOAT16;
    case CONFIG_WIRE_DTYPE_FLOAT16:
        return TUTTI_FLOAT16;
    case CONFIG_WIRE_DTYPE_FLOAT32:
        break;
    }
    return TUTTI_FLOAT32;
}

static tutti_status p2p_open(const struct op_env *env, void **state)
{
    struct p2p_state *made = mem_calloc(1, sizeof *made);
    size_t message;

    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the backend of messages");
    }
    message = env->link.message_bytes > 0 ? env->link.message_bytes : env->chunk_bytes;
    message = size_min(size_max(message, TASK_ALIGNMENT), TASK_MESSAGE_MAX);
    made->env = env;
    made->fabric = env->native;
    made->message_bytes = message - message % TASK_ALIGNMENT;
    made->window_bytes = env->link.window_bytes;
    made->wire = configured_wire(env);
    meter_init(&made->meter, env);
    *state = made;
    return TUTTI_OK;
}

static void p2p_close(void *state)
{
    struct p2p_state *closing = state;

    meter_fini(&closing->meter);
    scratch_pool_fini(&closing->pool);
    mem_free(closing);
}

static bool p2p_accepts(const void *state, const struct op_batch *batch)
{
    (void)state;
    if (op_is_exchange(batch->collective)) {
        return true;
    }
    return batch->run_count == 1 &&
            (op_is_reduction(batch->collective)
                            ? reduce_is_supported(batch->dtype, batch->op)
                            : batch->collective == TUTTI_BROADCAST);
}

static const struct p2p_algorithm *const reductions[P2P_REDUCTION_COUNT] = {
    [P2P_GATHER] = &reduction_gather,
    [P2P_DOUBLING] = &reduction_doubling,
    [P2P_DIRECT] = &reduction_direct
};

/* Where the link is known, its model decides on what fits one of its messages. */
static size_t gather_most(const struct p2p_state *state, const struct op_batch *batch)
{
    const struct op_link *link = &state->env->link;

    const size_t limit = gather_limit(state);

    return state->env->config->algorithm == CONFIG_ALGORITHM_AUTO &&
                    batch->collective == TUTTI_ALLREDUCE && link->bytes_per_us > 0 &&
                    p2p_wire_of(state, batch) == batch->dtype
            ? size_max(limit, link->message_bytes)
            : limit;
}

/* Whether an algorithm can take a reduction, by what it is and by its size. */
static bool may_use(const struct p2p_state *state, const struct op_batch *batch,
        enum p2p_reduction which)
{
    const int algorithm = state->env->config->algorithm;

    if (batch->count > reductions[which]->bytes_most / tutti_dtype_size(batch->dtype)) {
        return false;
    }
    switch (which) {
    case P2P_GATHER:
        return batch->count <=
                gather_most(state, batch) / tutti_dtype_size(batch->dtype);
    case P2P_DOUBLING:
        return batch->set->size > 2 && reduction_doubling_takes(batch) &&
                (algorithm == CONFIG_ALGORITHM_DOUBLING ||
                        (algorithm == CONFIG_ALGORITHM_AUTO &&
                                state->env->link.bytes_per_us > 0));
    case P2P_DIRECT:
    case P2P_REDUCTION_COUNT:
        break;
    }
    return true;
}

static double cost_us(const struct p2p_state *state, const struct op_batch *batch,
        enum p2p_reduction which)
{
    const tutti_dtype dtype =
            which == P2P_DIRECT ? p2p_wire_of(state, batch) : batch->dtype;

    return p2p_cost_us(&state->env->link, which, batch->set->size,
            batch->count * tutti_dtype_size(dtype));
}

/*
 * The first that can where nothing is known of the link, or one is asked for; else, of an
 * allreduce, the fastest. Others go the way of the same size.
 */
static enum p2p_reduction choose_reduction(
        const struct p2p_state *state, const struct op_batch *batch)
{
    const struct op_link *link = &state->env->link;
    enum p2p_reduction best = P2P_DIRECT;

    for (int which = 0; which < P2P_DIRECT; which++) {
        const enum p2p_reduction other = (enum p2p_reduction)which;

        if (!may_use(state, batch, other)) {
            continue;
        }
        if (link->bytes_per_us <= 0 || batch->set->size < 2 ||
                batch->collective != TUTTI_ALLREDUCE ||
                state->env->config->algorithm != CONFIG_ALGORITHM_AUTO) {
            return other;
        }
        if (cost_us(state, batch, other) < cost_us(state, batch, best)) {
            best = other;
        }
    }
    return best;
}

static const struct p2p_algorithm *choose(
        const struct p2p_state *state, const struct op_batch *batch)
{
    if (batch->collective == TUTTI_BROADCAST) {
        return &broadcast_tree;
    }
    if (op_is_exchange(batch->collective)) {
        return &exchange_direct;
    }
    return reductions[choose_reduction(state, batch)];
}

static void p2p_explain(
        const void *state, const struct op_batch *batch, char *text, size_t size)
{
    const struct p2p_state *owner = state;
    const struct op_link *link = &owner->env->link;
    const char *between = "; by the model of the link ";

    (void)snprintf(text, size, "%s", choose(owner, batch)->name);
    if (batch->collective != TUTTI_ALLREDUCE || link->bytes_per_us <= 0 ||
            batch->set->size < 2) {
        return;
    }
    for (int which = 0; which < P2P_REDUCTION_COUNT; which++) {
        const size_t used = strlen(text);

        if (may_use(owner, batch, (enum p2p_reduction)which)) {
            (void)snprintf(text + used, size - used, "%s%s %.0f us", between,
                    reductions[which]->name,
                    cost_us(owner, batch, (enum p2p_reduction)which));
            between = ", ";
        }
    }
}

/* Scratch that the fabric may still use is left to it for good. */
static void let_go(struct p2p_state *owner, struct p2p_task *task)
{
    const struct fabric *fabric = owner->fabric;

    if (fabric->ops->let_go(fabric->state, task->requests, task->request_count)) {
        scratch_give(&owner->pool, task->scratch);
    }
    memset(task, 0, sizeof *task);
}

/*
 * Receives that no message has met are cancelled. Other transfers may have begun, and
 * their peers, which give up as well, end them as long as they live; messages that no peer
 * will take never end, and after a while neither will anything else.
 */
static bool p2p_cancel(void *state, void *storage)
{
    const struct p2p_state *owner = state;
    const struct fabric *fabric = owner->fabric;
    struct p2p_task *task = storage;
    const int64_t now = clock_ns();
    int count;

    if (task->cancelled_ns == 0) {
        task->cancelled_ns = now;
        fabric->ops->cancel(fabric->state, task->requests, task->receive_count);
    }
    (void)!fabric->ops->poll(fabric->state, task->requests, task->receive_count,
            task->request_count, task->done, &count);
    if (!fabric->ops->are_free(task->requests, task->request_count) &&
            now - task->cancelled_ns < TASK_CANCEL_NS) {
        return false;
    }
    let_go(state, task);
    return true;
}

/* Rounded operands have no order whose bits could be foretold. */
static bool p2p_follows_ranks(const void *state, const struct op_set *set)
{
    const struct p2p_state *owner = state;

    return owner->wire == TUTTI_FLOAT32 || set->size == 1;
}

/* Between two ranks there is one pair each way, so that all share the last row. */
static int tag_of(const struct op_batch *batch)
{
    const struct op_set *set = batch->set;
    const uint32_t row = op_is_pair(set) ? OP_MESSAGE_BANKS * OP_SETS_MAX - 1
                                         : set->bank * OP_SETS_MAX + set->index;

    return ((int)row * OP_INFLIGHT_MAX + (int)op_slot(batch)) * TASK_PHASES;
}

static tutti_status p2p_start(void *state, void *storage, const struct op_batch *batch)
{
    struct p2p_state *owner = state;
    struct p2p_task *task = storage;
    tutti_status status;
    size_t bytes;

    assert((op_is_pair(batch->set) ||
                   (batch->set->index < OP_SETS_MAX &&
                           batch->set->bank < OP_MESSAGE_BANKS)) &&
            (batch->count > 0 || op_is_exchange(batch->collective)));
    if (!size_mul(batch->count, tutti_dtype_size(batch->dtype), &bytes)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "%zu elements are more than memory holds",
                batch->count);
    }
    *task = (struct p2p_task){
        .batch = batch,
        .algorithm = choose(owner, batch),
        .env = owner->env,
        .meter = &owner->meter,
        .fabric = owner->fabric,
        .tag = tag_of(batch),
        .element_bytes = tutti_dtype_size(batch->dtype),
        .spec = reduce_spec_of(batch),
    };
    status = task->algorithm->start(owner, task);
    if (status != TUTTI_OK) {
        let_go(owner, task);
    }
    return status;
}

static tutti_status p2p_step(void *state, void *storage, bool *moved)
{
    struct p2p_state *owner = state;
    struct p2p_task *task = storage;
    tutti_status status = task->algorithm->step(task, moved);

    if (status == TUTTI_OK) {
        scratch_give(&owner->pool, task->scratch);
        task->scratch = NULL;
    }
    return status;
}

const struct op_backend op_p2p = {
    .name = "messages",
    .takes_runs = 1u << TUTTI_ALLGATHER | 1u << TUTTI_ALLTOALL | 1u << TUTTI_GATHER |
            1u << TUTTI_SCATTER,
    .task_bytes = sizeof(struct p2p_task),
    .open = p2p_open,
    .close = p2p_close,
    .accepts = p2p_accepts,
    .start = p2p_start,
    .step = p2p_step,
    .cancel = p2p_cancel,
    .explain = p2p_explain,
    .follows_ranks = p2p_follows_ranks,
};
