/*
 * Jobs of host calls, groups, and polling.
 */
#include <stddef.h>

#include "base/clock.h"
#include "test/gpusim/nccl/launch.h"

enum {
    POLLS_MAX = 4,
    NAP_NS = 200000
};

/* What the thread has called since ncclGroupStart. */
static _Thread_local struct {
    bool is_open;
    struct launch *launch; /* NULL: nothing yet */
    nccl_result failed; /* the first error inside */
} group;

static nccl_result step(struct job *job)
{
    nccl_comm arrives = job->child != NULL ? job->child : job->comm;
    nccl_result result;

    if (!job->always_blocks && atomic_load(&job->comm->quits)) {
        return comm_error(NCCL_INTERNAL_ERROR, "%s: aborted", job->function);
    }
    result = job->step(job);
    if (result == NCCL_IN_PROGRESS && comm_is_late(job->since_ns)) {
        comm_report_hang(arrives, job->function,
                arrives->segment.shared == NULL ? 0
                                                : segment_missing(&arrives->segment,
                                                          SEGMENT_HOSTS, UINT64_MAX));
    }
    return result;
}

/* Steps the job until it is done. */
static nccl_result run(struct job job)
{
    nccl_comm comm = job.comm;
    nccl_result result;

    (void)atomic_fetch_add(&comm->users, 1);
    for (;;) {
        result = step(&job);
        if (result != NCCL_IN_PROGRESS) {
            break;
        }
        clock_sleep_ns(NAP_NS);
    }
    launch_drop(job.launch);
    return comm_leave(comm, COMM_ANY, result);
}

nccl_result job_submit(struct job *job)
{
    nccl_comm comm = job->comm;

    if (group.is_open) {
        comm_report_fatal("%s in a group, which is not simulated", job->function);
    }
    job->since_ns = clock_ns();
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
    if (group.is_open && group.failed == NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
        group.failed = result;
    }
    return result;
}

struct launch **job_group_launch(void)
{
    return group.is_open ? &group.launch : NULL;
}

nccl_result ncclGroupStart(void)
{
    nccl_result result = comm_begin("ncclGroupStart");

    if (group.is_open) {
        comm_report_fatal("a group in a group, which is not simulated");
    }
    group.is_open = result == NCCL_SUCCESS;
    return result;
}

nccl_result ncclGroupEnd(void)
{
    struct launch *launch = group.launch;
    nccl_result failed;

    (void)comm_begin("ncclGroupEnd");
    if (!group.is_open) {
        gpusim_report("ncclGroupEnd without ncclGroupStart");
        return NCCL_INVALID_USAGE;
    }
    failed = group.failed;
    group.is_open = false;
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
