/*
 * Requests of a batch in flight: memory for them, posting and testing.
 */
#include "ops/mpi/task.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"

tutti_status task_error(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    (void)MPI_Error_string(code, text, &length);
    return error_set(TUTTI_ERR_MPI, "%s: %s", what, text);
}

uint8_t *task_prepare(struct mpi_state *state, struct mpi_task *task, int receive_count,
        int send_count, size_t extra)
{
    size_t count = (size_t)receive_count + (size_t)send_count;
    size_t requests = size_align(count * sizeof *task->requests, TASK_ALIGNMENT);
    size_t statuses = size_align(count * sizeof *task->statuses, TASK_ALIGNMENT);
    size_t done = size_align(count * sizeof *task->done, TASK_ALIGNMENT);
    uint8_t *at;

    task->scratch = scratch_take(&state->pool, requests + statuses + done + extra);
    if (task->scratch == NULL) {
        (void)error_set(TUTTI_ERR_NO_MEMORY,
                "no memory to run a batch: %s of %zu tensors",
                tutti_collective_name(task->batch->collective), task->batch->run_count);
        return NULL;
    }
    at = task->scratch->bytes;
    task->requests = (MPI_Request *)(void *)at;
    task->statuses = (MPI_Status *)(void *)(at + requests);
    task->done = (int *)(void *)(at + requests + statuses);
    task->receive_count = receive_count;
    task->request_count = receive_count + send_count;
    for (int i = 0; i < task->request_count; i++) {
        task->requests[i] = MPI_REQUEST_NULL;
    }
    return at + requests + statuses + done;
}

tutti_status task_receive(struct mpi_task *task, int index, enum task_phase phase,
        int peer, void *buffer, size_t bytes)
{
    int code = MPI_ERR_COUNT;

    assert(index < task->receive_count);
    if (bytes <= TASK_MESSAGE_MAX) {
        code = MPI_Irecv(buffer, (int)bytes, MPI_BYTE,
                task->batch->set->world_ranks[peer], task->tag + (int)phase, task->comm,
                &task->requests[index]);
    }
    return code == MPI_SUCCESS ? TUTTI_OK : task_error(code, "receiving tensor data");
}

tutti_status task_send(struct mpi_task *task, int index, enum task_phase phase,
        int peer, const void *buffer, size_t bytes)
{
    int code = MPI_ERR_COUNT;

    assert(index >= task->receive_count);
    if (bytes <= TASK_MESSAGE_MAX) {
        code = MPI_Isend(buffer, (int)bytes, MPI_BYTE,
                task->batch->set->world_ranks[peer], task->tag + (int)phase, task->comm,
                &task->requests[index]);
    }
    return code == MPI_SUCCESS ? TUTTI_OK : task_error(code, "sending tensor data");
}

/* The first failure among the completed requests. */
static tutti_status failed_request(const struct mpi_task *task, int count)
{
    for (int i = 0; i < count; i++) {
        int code = task->statuses[i].MPI_ERROR;
        char what[64] = "sending tensor data";

        if (code == MPI_SUCCESS || code == MPI_ERR_PENDING) {
            continue;
        }
        if (task->done[i] < task->receive_count) {
            (void)snprintf(what, sizeof what, "receiving tensor data from rank %d",
                    task->statuses[i].MPI_SOURCE);
        }
        return task_error(code, what);
    }
    return task_error(MPI_ERR_IN_STATUS, "moving tensor data");
}

tutti_status task_poll(struct mpi_task *task, int *count)
{
    int completed = 0;
    int code = MPI_Testsome(task->request_count, task->requests, &completed, task->done,
            task->statuses);

    if (code == MPI_ERR_IN_STATUS) {
        return failed_request(task, completed);
    }
    if (code != MPI_SUCCESS) {
        return task_error(code, "moving tensor data");
    }
    *count = completed == MPI_UNDEFINED ? 0 : completed;
    return TUTTI_OK;
}
