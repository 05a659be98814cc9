/*
 * Jobs of host calls, groups, and polling.
 */
#include <stddef.h>

#include "base/clock.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/launch.h"

enum {
    POLLS_MAX = 4,
    NAP_NS = 200000
};

/* What the thread has called since ncclGroupStart. */
static _Thread_local struct {
    int depth;
    struct launch *launch; /* NULL: nothing yet */
    nccl_result failed; /* the first error inside */
} group;

static nccl_result step(struct job *job)
{
    if (!job->always_blocks && atomic_load(&job->comm->quit) == COMM_QUIT_ALL) {
        return comm_error(NCCL_INTERNAL_ERROR, "%s: aborted", job->function);
    }
    return job->step(job);
}

/* Steps the job until it is done. */
static nccl_result run(struct job job)
{
    nccl_comm comm = job.comm;
    const int64_t since_ns = clock_ns();
    nccl_result result;

    (void)pthread_mutex_lock(&comm->lock);
    comm->users++;
    (void)pthread_mutex_unlock(&comm->lock);
    for (;;) {
        result = step(&job);
        if (result != NCCL_IN_PROGRESS) {
            break;
        }
        clock_sleep_ns(NAP_NS);
        if (comm_is_late(since_ns)) {
            comm_report_hang(comm, job.function, UINT64_MAX);
        }
    }
    launch_drop(job.launch);
    return comm_leave(comm, COMM_ANY, result);
}

nccl_result job_submit(const struct job *job)
{
    nccl_comm comm = job->comm;

    if (group.depth > 0) {
        comm_report_fatal("%s in a group, which is not simulated", job->function);
    }
    if (comm->blocking || job->always_blocks) {
        return run(*job);
    }
    (void)pthread_mutex_lock(&comm->lock);
    comm->polls = 1 + (int)(gpusim_seeded(comm->ids, ++comm->polled) % POLLS_MAX);
    comm->pending = *job;
    (void)pthread_mutex_unlock(&comm->lock);
    return NCCL_IN_PROGRESS;
}

/* ---- groups ---- */

nccl_result job_group_failed(nccl_result result)
{
    if (group.depth > 0 && group.failed == NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
        group.failed = result;
    }
    return result;
}

struct launch **job_group_launch(void)
{
    return group.depth > 0 ? &group.launch : NULL;
}

nccl_result ncclGroupStart(void)
{
    nccl_result result = comm_begin("ncclGroupStart", -1);

    if (result == NCCL_SUCCESS) {
        group.depth++;
    }
    return result;
}

nccl_result ncclGroupEnd(void)
{
    struct launch *launch = group.launch;
    nccl_result failed;

    (void)comm_begin("ncclGroupEnd", -1);
    if (group.depth == 0) {
        gpusim_report("ncclGroupEnd without ncclGroupStart");
        return NCCL_INVALID_USAGE;
    }
    if (--group.depth > 0) {
        return NCCL_SUCCESS;
    }
    failed = group.failed;
    group.launch = NULL;
    group.failed = NCCL_SUCCESS;
    if (failed != NCCL_SUCCESS) {
        launch_drop(launch);
        return failed;
    }
    return launch == NULL ? NCCL_SUCCESS : launch_submit(launch);
}

/* ---- polls ---- */

/* True when the pending job is to be stepped now. */
static bool takes_turn(nccl_comm comm)
{
    bool takes;

    (void)pthread_mutex_lock(&comm->lock);
    takes = comm->pending.step != NULL && !comm->stepping && comm->polls-- <= 0;
    comm->stepping = comm->stepping || takes;
    (void)pthread_mutex_unlock(&comm->lock);
    return takes;
}

nccl_result ncclCommGetAsyncError(nccl_comm comm, nccl_result *error)
{
    nccl_result result = comm_enter(comm, "ncclCommGetAsyncError", COMM_ANY);

    if (result != NCCL_SUCCESS) {
        return result;
    }
    if (takes_turn(comm)) {
        result = step(&comm->pending);
        (void)pthread_mutex_lock(&comm->lock);
        comm->stepping = false;
        if (result != NCCL_IN_PROGRESS) {
            job_drop_pending_locked(comm);
        }
        if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
            atomic_store(&comm->async, result);
        }
        (void)pthread_mutex_unlock(&comm->lock);
    }
    (void)pthread_mutex_lock(&comm->lock);
    *error = comm->pending.step != NULL || comm->life == COMM_ARRIVING
            ? NCCL_IN_PROGRESS
            : atomic_load(&comm->async);
    (void)pthread_mutex_unlock(&comm->lock);
    return comm_leave(comm, COMM_ANY, NCCL_SUCCESS);
}

void job_drop_pending_locked(nccl_comm comm)
{
    launch_drop(comm->pending.launch);
    comm->pending = (struct job){ .comm = comm };
}
