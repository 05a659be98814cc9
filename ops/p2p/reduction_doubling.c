/*
 * Small allreduces of many ranks: partial sums travel up the canonical tree, so a rank sends
 * log2 n messages instead of n - 1. The ranks [0, n) split at the largest power of two below n,
 * so the blocks of 1, 2, 4 ... ranks that begin at multiples of their size are its branches.
 *
 * n a power of two (recursive doubling): in the step of distance d rank r and r ^ d, of two
 * neighbouring branches, exchange the partial sums of their branches; after log2 n steps all
 * have the sum.
 *
 *     d = 1   0 <-> 1   2 <-> 3   4 <-> 5   6 <-> 7
 *     d = 2   0 <-> 2   1 <-> 3   4 <-> 6   5 <-> 7
 *     d = 4   0 <-> 4   1 <-> 5   2 <-> 6   3 <-> 7
 *
 * Otherwise the first rank of a branch has its sum: it sends it to the first rank of the
 * branch that both are part of; rank 0 has the result in the end, which goes back the same way.
 *
 * Partial sums are of the elements' type, so types that are reduced in a wider one are not
 * taken. They lie in the output, also in place: it is written when the input has been sent.
 */
#include "base/status.h"
#include "ops/p2p/task.h"

/* Requests: one receive, and the sends to all branches on the way back. */
enum {
    RECEIVE,
    SENDS,
    SENDS_MAX = 31
};

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* One operand into another place, scaled. */
static void scale(const struct p2p_task *task, const struct reduce_spec *spec,
        const void *from, void *to)
{
    reduce_tree(spec, &from, 1, &to, 1, task->batch->count);
}

/* Adds what was received to the partial sum of this rank's branch. */
static void combine(struct p2p_task *task)
{
    struct doubling *d = &task->doubling;
    const bool is_left = (task->batch->set->rank & d->distance) == 0;
    const void *operands[2];
    void *result = task->batch->runs[0].output;
    struct reduce_spec spec = task->spec;
    const int64_t begin_ns = reduce_clock(task->env);

    operands[is_left ? 0 : 1] = d->current;
    operands[is_left ? 1 : 0] = d->received;
    spec.op = spec.op == TUTTI_AVERAGE ? TUTTI_SUM : spec.op;
    spec.prescale = 1;
    spec.postscale = 1;
    reduce_tree(&spec, operands, 2, &result, 1, task->batch->count);
    reduce_count(task->env, begin_ns);
    d->current = result;
    d->distance *= 2;
}

static tutti_status send(
        struct p2p_task *task, enum task_phase phase, int peer, const void *bytes)
{
    struct doubling *d = &task->doubling;

    d->pending++;
    return task_send(task, SENDS + d->sends++, phase, peer, bytes, d->bytes);
}

static tutti_status receive(
        struct p2p_task *task, enum task_phase phase, int peer, void *bytes)
{
    task->doubling.pending++;
    return task_receive(task, RECEIVE, phase, peer, bytes, task->doubling.bytes);
}

/* The result of all, from the sum of all. */
static void finish(struct p2p_task *task)
{
    struct reduce_spec spec = task->spec;

    spec.prescale = 1;
    scale(task, &spec, task->doubling.current, task->batch->runs[0].output);
}

static tutti_status exchange(struct p2p_task *task)
{
    struct doubling *d = &task->doubling;
    const int peer = task->batch->set->rank ^ d->distance;
    tutti_status status;

    d->sends = 0;
    status = send(task, TASK_OPERANDS, peer, d->current);
    return status == TUTTI_OK ? receive(task, TASK_OPERANDS, peer, d->received)
                              : status;
}

/* The result to the first ranks of the branches below this one, the farthest first. */
static tutti_status send_results(struct p2p_task *task, int below)
{
    const struct op_set *set = task->batch->set;
    tutti_status status = TUTTI_OK;

    task->doubling.stage = DOUBLING_SENDS_RESULTS;
    task->doubling.sends = 0;
    for (int distance = below / 2; distance > 0 && status == TUTTI_OK; distance /= 2) {
        if (set->rank + distance < set->size) {
            status = send(task, TASK_RESULTS, set->rank + distance,
                    task->batch->runs[0].output);
        }
    }
    return status;
}

/* What comes next on the way up, or at its end. */
static tutti_status go_up(struct p2p_task *task)
{
    struct doubling *d = &task->doubling;
    const struct op_set *set = task->batch->set;

    while (d->distance < set->size) {
        if ((set->rank & d->distance) != 0) {
            d->stage = DOUBLING_SENDS_PARTIAL;
            return send(task, TASK_OPERANDS, set->rank - d->distance, d->current);
        }
        if (set->rank + d->distance < set->size) {
            return receive(task, TASK_OPERANDS, set->rank + d->distance, d->received);
        }
        d->distance *= 2;
    }
    finish(task);
    return send_results(task, d->distance);
}

/* Everything that was posted is complete. @return TUTTI_OK when nothing was posted again */
static tutti_status advance(struct p2p_task *task)
{
    struct doubling *d = &task->doubling;
    const struct op_set *set = task->batch->set;

    switch (d->stage) {
    case DOUBLING_EXCHANGES:
        combine(task);
        if (d->distance < set->size) {
            return exchange(task);
        }
        finish(task);
        return TUTTI_OK;
    case DOUBLING_GOES_UP:
        combine(task);
        return go_up(task);
    case DOUBLING_SENDS_PARTIAL:
        d->stage = DOUBLING_AWAITS_RESULT;
        return receive(task, TASK_RESULTS, set->rank - d->distance,
                task->batch->runs[0].output);
    case DOUBLING_AWAITS_RESULT:
        return send_results(task, d->distance);
    case DOUBLING_SENDS_RESULTS:
        break;
    }
    return TUTTI_OK;
}

static tutti_status doubling_step(struct p2p_task *task, bool *moved)
{
    struct doubling *d = &task->doubling;
    int count = 0;
    tutti_status status = TUTTI_OK;

    if (d->pending > 0) {
        status = task_poll(task, &count);
    }
    d->pending -= count;
    *moved = *moved || count > 0;
    if (status != TUTTI_OK || d->pending > 0) {
        return status == TUTTI_OK ? TUTTI_AGAIN : status;
    }
    *moved = true;
    status = advance(task);
    return status == TUTTI_OK && d->pending > 0 ? TUTTI_AGAIN : status;
}

static tutti_status doubling_start(struct p2p_state *state, struct p2p_task *task)
{
    struct doubling *d = &task->doubling;
    const struct op_batch *batch = task->batch;
    const size_t bytes = batch->count * task->element_bytes;
    uint8_t *received = task_prepare(state, task, 1, SENDS_MAX, bytes);

    if (received == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    *d = (struct doubling){ .stage = is_power_of_two(batch->set->size)
                ? DOUBLING_EXCHANGES
                : DOUBLING_GOES_UP,
        .distance = 1,
        .bytes = bytes,
        .current = batch->runs[0].input,
        .received = received };
    if (batch->prescale != 1) {
        struct reduce_spec spec = task->spec;

        spec.op = TUTTI_SUM;
        spec.postscale = 1;
        scale(task, &spec, d->current, batch->runs[0].output);
        d->current = batch->runs[0].output;
    }
    return d->stage == DOUBLING_EXCHANGES ? exchange(task) : go_up(task);
}

bool reduction_doubling_takes(const struct op_batch *batch)
{
    return batch->collective == TUTTI_ALLREDUCE &&
            (dtype_is_float(batch->dtype) ? tutti_dtype_size(batch->dtype) >= 4
                                          : batch->op != TUTTI_AVERAGE);
}

const struct p2p_algorithm reduction_doubling = {
    .name = "doubling",
    .bytes_most = TASK_WHOLE_MAX,
    .start = doubling_start,
    .step = doubling_step,
};
