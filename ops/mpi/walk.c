/*
 * Walking: a rank that does not take part in a batch that rides ends the messages of those
 * that do. It says so to each peer by an empty message, and takes what the peer sends into
 * scratch, whatever batch it may be of: a receive longer than its message is no error.
 *
 * So it need not know what the batch is, but only how long a first message can be.
 */
#include "base/mem.h"
#include "ops/mpi/task.h"

static tutti_status walk_start(struct mpi_state *state, struct mpi_task *task)
{
    const int peers = task->batch->set->size - 1;
    const size_t most = direct_message_max(state, (size_t)peers + 1);
    uint8_t *into = task_prepare(state, task, peers, peers, (size_t)peers * most);
    tutti_status status = into != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;

    for (int i = 0; i < peers && status == TUTTI_OK; i++) {
        const int peer = task_peer(task, i);

        status = task_send(task, peers + i, TASK_OPERANDS, peer, &task_first_byte, 0);
        if (status == TUTTI_OK) {
            status = task_receive(
                    task, i, TASK_OPERANDS, peer, into + (size_t)i * most, most);
        }
    }
    task->walk_pending = 2 * peers;
    return status;
}

static tutti_status walk_step(struct mpi_task *task, bool *moved)
{
    int count = 0;
    tutti_status status = task_poll(task, &count);

    if (status == TUTTI_OK) {
        status = task_hear(task, count);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    task->walk_pending -= count;
    *moved = *moved || count > 0;
    return task->walk_pending == 0 ? TUTTI_OK : TUTTI_AGAIN;
}

const struct mpi_algorithm walk = {
    .name = "walk",
    .start = walk_start,
    .step = walk_step,
};
