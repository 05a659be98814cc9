/*
 * Small allreduce: every rank sends its raw operand to every other and reduces all of
 * them itself, in the canonical order. One hop, hence the lowest latency; the bytes
 * grow with the number of ranks, so it is for small batches.
 *
 * In place is safe because the output is written only after all sends are complete.
 */
#include "base/mem.h"
#include "ops/mpi/task.h"

static tutti_status gather_start(struct mpi_state *state, struct mpi_task *task)
{
    const struct op_set *set = task->batch->set;
    const struct op_run *run = &task->batch->runs[0];
    int peers = set->size - 1;
    size_t bytes = run->count * task->element_bytes;
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
    task->gather.operands[set->rank] = run->input;
    task->gather.pending = 2 * peers;
    for (int i = 0; i < peers && status == TUTTI_OK; i++) {
        uint8_t *operand = extra + pointers + (size_t)i * stride;

        task->gather.operands[task_peer(task, i)] = operand;
        status = task_receive(
                task, i, TASK_OPERANDS, task_peer(task, i), operand, bytes);
    }
    for (int i = 0; i < peers && status == TUTTI_OK; i++) {
        status = task_send(
                task, peers + i, TASK_OPERANDS, task_peer(task, i), run->input, bytes);
    }
    return status;
}

static tutti_status gather_step(struct mpi_task *task, bool *moved)
{
    const struct op_run *run = &task->batch->runs[0];
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
    reduce_tree(&task->spec, task->gather.operands, task->batch->set->size,
            (void *[]){ run->output }, 1, run->count);
    *moved = true;
    return TUTTI_OK;
}

const struct mpi_algorithm allreduce_gather = {
    .name = "gather",
    .start = gather_start,
    .step = gather_step,
};
