/*
 * Requests of a batch in flight: memory for them, posting and testing.
 */
#include "ops/p2p/task.h"

#include <assert.h>

#include "base/error.h"
#include "base/mem.h"

uint8_t *task_prepare(struct p2p_state *state, struct p2p_task *task, int receive_count,
        int send_count, size_t extra)
{
    size_t count = (size_t)receive_count + (size_t)send_count;
    size_t requests =
            size_align(count * task->fabric->ops->request_bytes, TASK_ALIGNMENT);
    size_t done = size_align(count * sizeof *task->done, TASK_ALIGNMENT);
    uint8_t *at;

    task->scratch = scratch_take(&state->pool, requests + done + extra);
    if (task->scratch == NULL) {
        (void)error_set(TUTTI_ERR_NO_MEMORY,
                "no memory to run a batch: %s of %zu tensors",
                tutti_collective_name(task->batch->collective), task->batch->run_count);
        return NULL;
    }
    at = task->scratch->bytes;
    task->requests = at;
    task->done = (int *)(void *)(at + requests);
    task->receive_count = receive_count;
    task->request_count = receive_count + send_count;
    task->fabric->ops->clear(task->requests, task->request_count);
    return at + requests + done;
}

tutti_status task_receive(struct p2p_task *task, int index, enum task_phase phase,
        int peer, void *buffer, size_t bytes)
{
    const struct fabric *fabric = task->fabric;

    assert(index < task->receive_count && bytes <= TASK_MESSAGE_MAX);
    return fabric->ops->receive(fabric->state, FABRIC_DATA,
            task->batch->set->world_ranks[peer], task->tag + (int)phase, buffer, bytes,
            task->requests, index);
}

tutti_status task_send(struct p2p_task *task, int index, enum task_phase phase,
        int peer, const void *buffer, size_t bytes)
{
    const struct fabric *fabric = task->fabric;

    assert(index >= task->receive_count && bytes <= TASK_MESSAGE_MAX);
    return fabric->ops->send(fabric->state, FABRIC_DATA,
            task->batch->set->world_ranks[peer], task->tag + (int)phase, buffer, bytes,
            task->requests, index);
}

tutti_status task_poll(struct p2p_task *task, int *count)
{
    return task->fabric->ops->poll(task->fabric->state, task->requests,
            task->receive_count, task->request_count, task->done, count);
}
