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
    struct job *first;
    nccl_result failed; /* the first error inside */
} group;

static void append(struct job **list, struct job *job)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = job;
}

static void dispose_all(struct job *job)
{
    struct job *next;

    for (; job != NULL; job = next) {
        next = job->next;
        job->dispose(job);
    }
}

/* Waits for other ranks, shortly: other jobs of the group may go on meanwhile. */
static void pause_at(struct job *job, uint32_t seen)
{
    nccl_comm comm = job->waits;

    if (comm_pause(comm, seen, &job->patience)) {
        comm_report_hang(comm, job->function, UINT64_MAX);
    }
}

static uint32_t bell_of(const struct job *job)
{
    return job->waits->segment.shared != NULL ? segment_bell(&job->waits->segment) : 0;
}

static nccl_result step(struct job *job)
{
    if (!job->always_blocks && atomic_load(&job->comm->quit) == COMM_QUIT_ALL) {
        return comm_error(job->comm, NCCL_INTERNAL_ERROR, "%s: aborted", job->function);
    }
    return job->step(job);
}

/* Steps all jobs once; those that are done leave the list. The first error, or success. */
static nccl_result step_all(struct job **list)
{
    nccl_result first = NCCL_SUCCESS;
    nccl_result result;
    struct job *job;

    while (*list != NULL) {
        job = *list;
        result = step(job);
        if (result == NCCL_IN_PROGRESS) {
            list = &job->next;
            continue;
        }
        if (first == NCCL_SUCCESS) {
            first = result;
        }
        *list = job->next;
        comm_leave_any(job->comm);
        job->dispose(job);
    }
    return first;
}

static nccl_result run(struct job *list)
{
    nccl_result first = NCCL_SUCCESS;
    nccl_result result;
    uint32_t seen;
    struct job *job;

    for (job = list; job != NULL; job = job->next) {
        (void)pthread_mutex_lock(&job->comm->lock);
        job->comm->users++;
        (void)pthread_mutex_unlock(&job->comm->lock);
    }
    while (list != NULL) {
        seen = bell_of(list);
        job = list;
        result = step_all(&list);
        if (first == NCCL_SUCCESS) {
            first = result;
        }
        if (list == job) {
            pause_at(list, seen);
        }
    }
    return first;
}

/* Leaves the jobs to polls. */
static nccl_result leave_pending(struct job *list)
{
    struct job *job;
    struct job *next;
    nccl_comm comm;

    for (job = list; job != NULL; job = next) {
        next = job->next;
        comm = job->comm;
        job->next = NULL;
        (void)pthread_mutex_lock(&comm->lock);
        job->polls = 1 + (int)(gpusim_seeded(comm->number, ++comm->polled) % POLLS_MAX);
        append(&comm->pending, job);
        (void)pthread_mutex_unlock(&comm->lock);
    }
    return NCCL_IN_PROGRESS;
}

static bool has_pending(const struct job *list)
{
    for (; list != NULL; list = list->next) {
        if (!list->comm->blocking && !list->always_blocks) {
            return true;
        }
    }
    return false;
}

static nccl_result launch(struct job *list)
{
    return has_pending(list) ? leave_pending(list) : run(list);
}

nccl_result job_submit(struct job *job)
{
    job->next = NULL;
    if (group.depth == 0) {
        return launch(job);
    }
    append(&group.first, job);
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
    struct job *list = group.first;
    nccl_result failed = group.failed;

    if (group.depth == 0) {
        gpusim_report("ncclGroupEnd without ncclGroupStart");
        return NCCL_INVALID_USAGE;
    }
    group.depth--;
    if (group.depth > 0) {
        return NCCL_SUCCESS;
    }
    group.first = NULL;
    group.failed = NCCL_SUCCESS;
    if (failed != NCCL_SUCCESS) {
        dispose_all(list);
        return failed;
    }
    return list == NULL ? NCCL_SUCCESS : launch(list);
}

struct job *job_in_group(nccl_comm comm, nccl_result (*kind)(struct job *job))
{
    struct job *job = group.first;

    while (job != NULL && (job->comm != comm || job->step != kind)) {
        job = job->next;
    }
    return job;
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
        comm->pending = job->next;
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
    dispose_all(comm->pending);
    comm->pending = NULL;
}
