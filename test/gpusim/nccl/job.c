/*
 * Jobs of host calls, groups, and polling.
 */
#include "test/gpusim/nccl/job.h"

#include <stddef.h>

#include "test/gpusim/gpusim.h"

enum {
    POLLS_MAX = 4
};

/* What the thread has called since ncclGroupStart. */
static _Thread_local struct {
    int depth;
    struct job *kept; /* NULL: nothing yet */
    nccl_result failed; /* the first error inside */
} group;

static nccl_result step(struct job *job)
{
    if (!job->always_blocks && atomic_load(&job->comm->quit)) {
        return comm_error(job->comm, NCCL_INTERNAL_ERROR, "%s: aborted", job->function);
    }
    return job->step(job);
}

static uint32_t bell_of(const struct job *job)
{
    return job->waits->segment.shared != NULL ? segment_bell(&job->waits->segment) : 0;
}

/* Steps the job until it is done. */
static nccl_result run(struct job *job)
{
    nccl_comm comm = job->comm;
    nccl_result result;

    (void)pthread_mutex_lock(&comm->lock);
    comm->users++;
    (void)pthread_mutex_unlock(&comm->lock);
    for (;;) {
        const uint32_t seen = bell_of(job);

        result = step(job);
        if (result != NCCL_IN_PROGRESS) {
            break;
        }
        if (comm_pause(job->waits, seen, &job->patience)) {
            comm_report_hang(job->waits, job->function, UINT64_MAX);
        }
    }
    comm_leave_any(comm);
    job->dispose(job);
    return result;
}

/* Leaves the job to polls. */
static nccl_result leave_pending(struct job *job)
{
    nccl_comm comm = job->comm;

    (void)pthread_mutex_lock(&comm->lock);
    job->polls = 1 + (int)(gpusim_seeded(comm->number, ++comm->polled) % POLLS_MAX);
    comm->pending = job;
    (void)pthread_mutex_unlock(&comm->lock);
    return NCCL_IN_PROGRESS;
}

static nccl_result launch(struct job *job)
{
    return job->comm->blocking || job->always_blocks ? run(job) : leave_pending(job);
}

nccl_result job_submit(struct job *job)
{
    if (group.depth == 0) {
        return launch(job);
    }
    if (group.kept != NULL) {
        comm_report_fatal("a group of several communicators, or of something beside "
                          "collectives, sends and receives, which is not simulated");
    }
    group.kept = job;
    return NCCL_SUCCESS;
}

void job_group_start(void)
{
    group.depth++;
}

nccl_result job_group_failed(nccl_result result)
{
    if (group.depth > 0 && group.failed == NCCL_SUCCESS) {
        group.failed = result;
    }
    return result;
}

nccl_result job_group_end(void)
{
    struct job *job = group.kept;
    nccl_result failed = group.failed;

    if (group.depth == 0) {
        gpusim_report("ncclGroupEnd without ncclGroupStart");
        return NCCL_INVALID_USAGE;
    }
    group.depth--;
    if (group.depth > 0) {
        return NCCL_SUCCESS;
    }
    group.kept = NULL;
    group.failed = NCCL_SUCCESS;
    if (failed != NCCL_SUCCESS && job != NULL) {
        job->dispose(job);
    }
    return failed != NCCL_SUCCESS || job == NULL ? failed : launch(job);
}

struct job *job_in_group(nccl_comm comm, nccl_result (*kind)(struct job *job))
{
    struct job *job = group.kept;

    return job != NULL && job->comm == comm && job->step == kind ? job : NULL;
}

/* Takes the pending job that is to be stepped now; NULL: none, or not yet. */
static struct job *take_pending(nccl_comm comm)
{
    struct job *job;

    (void)pthread_mutex_lock(&comm->lock);
    job = comm->pending;
    if (job != NULL && (comm->stepping || job->polls-- > 0)) {
        job = NULL;
    }
    comm->stepping = comm->stepping || job != NULL;
    (void)pthread_mutex_unlock(&comm->lock);
    return job;
}

nccl_result job_poll(nccl_comm comm)
{
    nccl_result result = NCCL_SUCCESS;
    struct job *job = take_pending(comm);

    if (job != NULL) {
        result = step(job);
    }
    (void)pthread_mutex_lock(&comm->lock);
    if (job != NULL) {
        comm->stepping = false;
    }
    if (job != NULL && result != NCCL_IN_PROGRESS) {
        comm->pending = NULL;
        job->dispose(job);
    }
    if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
        atomic_store(&comm->async, result);
    }
    result = comm->pending != NULL || comm->life == COMM_ARRIVING
            ? NCCL_IN_PROGRESS
            : atomic_load(&comm->async);
    (void)pthread_mutex_unlock(&comm->lock);
    return result;
}

void job_drop_pending_locked(nccl_comm comm)
{
    if (comm->pending != NULL) {
        comm->pending->dispose(comm->pending);
        comm->pending = NULL;
    }
}
