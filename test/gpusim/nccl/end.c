/*
 * The ends of communicators.
 */
#include <stddef.h>

#include "base/mem.h"
#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/arrive.h"
#include "test/gpusim/nccl/job.h"

struct end_job {
    struct job base;
    bool has_met; /* this rank has come to the meeting of the end */
    bool aborts_meet; /* a fault: an abort waits for those of the node */
};

static void free_job(struct job *job)
{
    mem_free(job);
}

static struct job *create(
        nccl_comm comm, const char *function, nccl_result (*step)(struct job *job))
{
    struct end_job *self = must(mem_calloc(1, sizeof *self));

    self->base = (struct job){ .comm = comm,
        .waits = comm,
        .function = function,
        .step = step,
        .dispose = free_job };
    return &self->base;
}

static nccl_result finalize_step(struct job *job)
{
    if (comm_is_needed(job->comm)) {
        return NCCL_IN_PROGRESS;
    }
    (void)pthread_mutex_lock(&job->comm->lock);
    job->comm->life = COMM_FINALIZED;
    (void)pthread_mutex_unlock(&job->comm->lock);
    return NCCL_SUCCESS;
}

struct job *end_finalize(nccl_comm comm)
{
    return create(comm, "ncclCommFinalize", finalize_step);
}

/* Ranks of the same node that are other processes. */
static uint64_t neighbours(nccl_comm comm)
{
    const struct segment_rank *here = segment_rank(&comm->segment, comm->rank);
    const struct segment_rank *there;
    uint64_t members = 0;
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        there = segment_rank(&comm->segment, rank);
        if (there->host == here->host && there->pid != here->pid) {
            members |= UINT64_C(1) << rank;
        }
    }
    return members;
}

/* The other processes of the node come to the end, too. */
static nccl_result meet(struct end_job *self)
{
    nccl_comm comm = self->base.comm;
    uint64_t members = neighbours(comm);
    struct segment_word word = { .kind = MEETING_DESTROY };

    if (!self->has_met) {
        self->has_met = true;
        segment_meet(&comm->segment, &word);
    }
    arrive_check(comm, members & ~segment_missing(&comm->segment, members));
    return segment_missing_here(&comm->segment, members) == 0 ? NCCL_SUCCESS
                                                              : NCCL_IN_PROGRESS;
}

static nccl_result destroy_step(struct job *job)
{
    nccl_comm comm = job->comm;
    nccl_result result;

    if (atomic_load(&comm->quit)) {
        return comm_error(comm, NCCL_INTERNAL_ERROR, "ncclCommDestroy: aborted");
    }
    if (comm_is_needed(comm)) {
        return NCCL_IN_PROGRESS;
    }
    if (comm->life == COMM_LIVE || comm->life == COMM_FINALIZED) {
        result = meet((struct end_job *)job);
        if (result == NCCL_IN_PROGRESS) {
            return result;
        }
        if (comm->memory != NULL) {
            (void)comm_misuse(comm, "ncclCommDestroy",
                    "memory is still registered with it", NCCL_SUCCESS);
        }
    }
    comm_bury(comm);
    return NCCL_SUCCESS;
}

struct job *end_destroy(nccl_comm comm)
{
    struct job *job = create(comm, "ncclCommDestroy", destroy_step);

    job->always_blocks = true;
    return job;
}

/* Ranks of the node, of this process or another, that have come to no abort yet. */
static bool is_awaited(nccl_comm comm)
{
    const struct segment_rank *here = segment_rank(&comm->segment, comm->rank);

    for (int rank = 0; rank < comm->ranks; rank++) {
        const struct segment_rank *there = segment_rank(&comm->segment, rank);
        const enum segment_state state = segment_state(&comm->segment, rank);

        if (state >= SEGMENT_TOLD && state != SEGMENT_GONE &&
                there->host == here->host && atomic_load(&there->aborts) == 0) {
            return true;
        }
    }
    return false;
}

static nccl_result abort_step(struct job *job)
{
    const struct end_job *self = (struct end_job *)job;
    nccl_comm comm = job->comm;

    if (comm->segment.shared != NULL &&
            atomic_exchange(&segment_rank(&comm->segment, comm->rank)->aborts, 1) ==
                    0) {
        segment_ring_all(&comm->segment);
    }
    if (comm_is_needed(comm) ||
            (self->aborts_meet && comm->segment.shared != NULL && is_awaited(comm))) {
        return NCCL_IN_PROGRESS;
    }
    load_wait(comm);
    comm_bury(comm);
    return NCCL_SUCCESS;
}

struct job *end_abort(nccl_comm comm)
{
    struct job *job = create(comm, "ncclCommAbort", abort_step);
    long value;

    job->always_blocks = true;
    ((struct end_job *)job)->aborts_meet = fault_at(comm->rank, "abortmeets", &value);
    return job;
}
