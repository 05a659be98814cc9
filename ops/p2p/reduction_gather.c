/*
 * Small reductions: every rank sends its raw operand to those who want the result, and
 * they reduce all operands themselves, in the canonical order. One hop, hence the lowest
 * latency; the bytes grow with the number of ranks, so it is for small batches.
 *
 *     allreduce       everybody wants all
 *     reduce          the root wants all
 *     reducescatter   everybody wants its part
 *
 * Operands travel as they are: one hop of so few bytes takes the link's latency, which 16 bits
 * (wire_dtype) would not shorten. Partial sums (reduction_doubling.c) would be rounded at each step.
 *
 * In place is safe because the output is written only after all sends are complete.
 */
#include "base/mem.h"
#include "ops/p2p/task.h"

/* The bytes of the input whose reduction a rank wants. */
static struct op_part wanted_by(const struct p2p_task *task, int rank)
{
    const struct op_batch *batch = task->batch;

    if (batch->collective == TUTTI_REDUCESCATTER) {
        return batch->runs[0].sends[rank];
    }
    if (batch->collective == TUTTI_REDUCE && rank != batch->root) {
        return (struct op_part){ 0 };
    }
    return (struct op_part){ .bytes = batch->count * task->element_bytes };
}

/* Posts the receives of the operands of all peers, for the part that is wanted here. */
static tutti_status receive_operands(
        struct p2p_task *task, uint8_t *operands, size_t bytes)
{
    const int peers = task->batch->set->size - 1;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < peers && status == TUTTI_OK; i++) {
        const int peer = task_peer(task, i);

        task->gather.operands[peer] = operands;
        task->gather.pending++;
        status = task_receive(task, i, TASK_OPERANDS, peer, operands, bytes);
        operands += size_align(bytes, TASK_ALIGNMENT);
    }
    return status;
}

static tutti_status send_operands(struct p2p_task *task)
{
    const uint8_t *input = task->batch->runs[0].input;
    const int peers = task->batch->set->size - 1;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < peers && status == TUTTI_OK; i++) {
        const int peer = task_peer(task, i);
        const struct op_part part = wanted_by(task, peer);

        if (part.bytes > 0) {
            task->gather.pending++;
            status = task_send(task, peers + i, TASK_OPERANDS, peer,
                    input + part.offset, part.bytes);
        }
    }
    return status;
}

static tutti_status gather_start(struct p2p_state *state, struct p2p_task *task)
{
    const struct op_set *set = task->batch->set;
    const size_t bytes = wanted_by(task, set->rank).bytes;
    int peers = set->size - 1;
    size_t stride = size_align(bytes, TASK_ALIGNMENT);
    size_t pointers = (size_t)set->size * sizeof *task->gather.operands;
    uint8_t *extra;
    tutti_status status = TUTTI_OK;

    pointers = size_align(pointers, TASK_ALIGNMENT);
    extra = task_prepare(state, task, peers, peers, pointers + (size_t)peers * stride);
    if (extra == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    task->gather.operands = (const void **)(void *)extra;
    if (bytes > 0) {
        status = receive_operands(task, extra + pointers, bytes);
    }
    return status == TUTTI_OK ? send_operands(task) : status;
}

static void reduce(const struct p2p_task *task)
{
    const struct op_run *run = &task->batch->runs[0];
    const struct op_set *set = task->batch->set;
    const struct op_part mine = wanted_by(task, set->rank);
    const int64_t begin_ns = reduce_clock(task->env);

    if (mine.bytes > 0) {
        task->gather.operands[set->rank] = (const uint8_t *)run->input + mine.offset;
        reduce_tree(&task->spec, task->gather.operands, set->size,
                (void *[]){ run->output }, 1, mine.bytes / task->element_bytes);
    }
    reduce_count(task->env, begin_ns);
}

static tutti_status gather_step(struct p2p_task *task, bool *moved)
{
    int count = 0;

    if (task->gather.pending > 0) {
        tutti_status status = task_poll(task, &count);

        if (status != TUTTI_OK) {
            return status;
        }
        task->gather.pending -= count;
        *moved = *moved || count > 0;
    }
    if (task->gather.pending > 0) {
        return TUTTI_AGAIN;
    }
    reduce(task);
    *moved = true;
    return TUTTI_OK;
}

const struct p2p_algorithm reduction_gather = {
    .name = "gather",
    .bytes_most = TASK_WHOLE_MAX,
    .start = gather_start,
    .step = gather_step,
};
