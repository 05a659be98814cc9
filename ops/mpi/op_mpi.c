/*
 * The MPI backend: opening, the choice of algorithm, and giving up.
 *
 *     reduction_gather.c   small: whole operands to those who want the result, one hop
 *     reduction_direct.c   large: direct reduce-scatter and allgather, chunked
 *     broadcast_tree.c     binomial tree or chain, chunked
 *     exchange.c           allgather, alltoall, gather, scatter: parts, one hop
 *     task.h               how messages of different batches are kept apart
 *
 * The choice looks only at the batch's size and kind and at configuration that is equal
 * on all ranks.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/mpi/mpi.h"
#include "ops/mpi/task.h"

/* Largest batch that algorithm=gather exchanges whole: all operands go to scratch. */
#define GATHER_BYTES_MAX ((size_t)1 << 24)

static size_t gather_limit(const struct config *config)
{
    switch ((enum config_algorithm)config->algorithm) {
    case CONFIG_ALGORITHM_GATHER:
        return GATHER_BYTES_MAX;
    case CONFIG_ALGORITHM_DIRECT:
        return 0;
    case CONFIG_ALGORITHM_AUTO:
        break;
    }
    return config->gather_bytes;
}

static tutti_status check_tags(MPI_Comm comm)
{
    const int largest = OP_SETS_MAX * OP_SLOTS * TASK_PHASES - 1;
    int *bound = NULL;
    int found = 0;
    int code = MPI_Comm_get_attr(comm, MPI_TAG_UB, (void *)&bound, &found);

    if (code != MPI_SUCCESS) {
        return task_error(code, "reading MPI_TAG_UB");
    }
    if (found != 0 && *bound < largest) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "this MPI has message tags up to %d (MPI_TAG_UB); tutti needs %d",
                *bound, largest);
    }
    return TUTTI_OK;
}

static tutti_status mpi_open(const struct op_env *env, void **state)
{
    MPI_Comm comm = *(const MPI_Comm *)env->native;
    struct mpi_state *made;
    size_t message;
    tutti_status status = check_tags(comm);

    if (status != TUTTI_OK) {
        return status;
    }
    made = mem_calloc(1, sizeof *made);
    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the MPI backend");
    }
    message = size_min(size_max(env->chunk_bytes, TASK_ALIGNMENT), TASK_MESSAGE_MAX);
    made->env = env;
    made->comm = comm;
    made->message_bytes = message - message % TASK_ALIGNMENT;
    made->gather_bytes = gather_limit(env->config);
    *state = made;
    return TUTTI_OK;
}

static void mpi_close(void *state)
{
    struct mpi_state *closing = state;

    scratch_pool_fini(&closing->pool);
    mem_free(closing);
}

static bool mpi_accepts(const void *state, const struct op_batch *batch)
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

static const struct mpi_algorithm *choose(
        const struct mpi_state *state, const struct op_batch *batch)
{
    if (batch->collective == TUTTI_BROADCAST) {
        return &broadcast_tree;
    }
    if (op_is_exchange(batch->collective)) {
        return &exchange_direct;
    }
    return batch->count <= state->gather_bytes / tutti_dtype_size(batch->dtype)
            ? &reduction_gather
            : &reduction_direct;
}

/* Scratch that MPI may still use is left to it for good. */
static void let_go(struct mpi_state *owner, struct mpi_task *task)
{
    bool settled = true;

    for (int i = 0; i < task->request_count; i++) {
        if (task->requests[i] != MPI_REQUEST_NULL) {
            (void)MPI_Request_free(&task->requests[i]);
            settled = false;
        }
    }
    if (settled) {
        scratch_give(&owner->pool, task->scratch);
    }
    memset(task, 0, sizeof *task);
}

static void cancel_receives(struct mpi_task *task)
{
    for (int i = 0; i < task->receive_count; i++) {
        if (task->requests[i] != MPI_REQUEST_NULL) {
            (void)MPI_Cancel(&task->requests[i]);
        }
    }
}

/*
 * Receives that no message has met are cancelled. Other transfers may have begun, and
 * their peers, which give up as well, end them as long as they live; messages that no peer
 * will take never end, and after a while neither will anything else.
 */
static bool mpi_cancel(void *state, void *storage)
{
    struct mpi_task *task = storage;
    const int64_t now = clock_ns();
    int done = 0;

    if (task->cancelled_ns == 0) {
        task->cancelled_ns = now;
        cancel_receives(task);
    }
    (void)MPI_Testall(task->request_count, task->requests, &done, task->statuses);
    if (done == 0 && now - task->cancelled_ns < TASK_CANCEL_NS) {
        return false;
    }
    let_go(state, task);
    return true;
}

static bool mpi_gathers(const void *state, const struct op_batch *batch)
{
    return choose(state, batch) == &reduction_gather;
}

static int tag_of(const struct op_batch *batch)
{
    return ((int)batch->set->index * OP_SLOTS + (int)op_slot(batch)) * TASK_PHASES;
}

static tutti_status mpi_start(void *state, void *storage, const struct op_batch *batch)
{
    struct mpi_state *owner = state;
    struct mpi_task *task = storage;
    tutti_status status;
    size_t bytes;

    assert(batch->set->index < OP_SETS_MAX && batch->lane < OP_LANES &&
            (batch->count > 0 || op_is_exchange(batch->collective)));
    if (!size_mul(batch->count, tutti_dtype_size(batch->dtype), &bytes)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "%zu elements are more than memory holds",
                batch->count);
    }
    *task = (struct mpi_task){
        .batch = batch,
        .algorithm = choose(owner, batch),
        .env = owner->env,
        .comm = owner->comm,
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

static tutti_status mpi_step(void *state, void *storage, bool *moved)
{
    struct mpi_state *owner = state;
    struct mpi_task *task = storage;
    tutti_status status = task->algorithm->step(task, moved);

    if (status == TUTTI_OK) {
        scratch_give(&owner->pool, task->scratch);
        task->scratch = NULL;
    }
    return status;
}

const struct op_backend op_mpi = {
    .name = "mpi",
    .takes_runs = 1u << TUTTI_ALLGATHER | 1u << TUTTI_ALLTOALL | 1u << TUTTI_GATHER |
            1u << TUTTI_SCATTER,
    .task_bytes = sizeof(struct mpi_task),
    .open = mpi_open,
    .close = mpi_close,
    .accepts = mpi_accepts,
    .start = mpi_start,
    .step = mpi_step,
    .cancel = mpi_cancel,
    .gathers = mpi_gathers,
};
