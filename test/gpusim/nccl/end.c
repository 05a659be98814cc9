/*
 * The ends of communicators.
 */
#include <stddef.h>

#include "test/gpusim/nccl/launch.h"

/* ---- finalizing ---- */

static nccl_result finalize_step(struct job *job)
{
    if (comm_is_needed(job->comm)) {
        return NCCL_IN_PROGRESS;
    }
    atomic_store(&job->comm->life, COMM_FINALIZED);
    return NCCL_SUCCESS;
}

nccl_result ncclCommFinalize(nccl_comm comm)
{
    static const char function[] = "ncclCommFinalize";
    struct job job = { .comm = comm, .function = function, .step = finalize_step };
    nccl_result result = comm_enter(comm, function, COMM_READY);

    return result != NCCL_SUCCESS ? result
                                  : comm_leave(comm, COMM_READY, job_submit(&job));
}

/* ---- destroying ---- */

/* Ranks that have not left. */
static uint64_t members_of(const struct segment *segment)
{
    uint64_t members = 0;

    for (int rank = 0; rank < segment->ranks; rank++) {
        if (segment_state(segment, rank) != SEGMENT_GONE) {
            members |= UINT64_C(1) << rank;
        }
    }
    return members;
}

/* It is a collective of the ranks of a node. */
static nccl_result destroy_step(struct job *job)
{
    static const struct segment_word word = { .facts = {
                                                      .function = FUNCTION_DESTROY } };
    nccl_comm comm = job->comm;

    if (comm_is_needed(comm) || comm_is_shared(comm)) {
        return NCCL_IN_PROGRESS;
    }
    if (comm->life == COMM_LIVE || comm->life == COMM_FINALIZED) {
        const uint64_t members = members_of(&comm->segment);

        if (!job->is_begun) {
            job->is_begun = true;
            segment_come(&comm->segment, SEGMENT_HOSTS, &word);
        }
        segment_agree(&comm->segment, SEGMENT_HOSTS, members);
        if (segment_missing(&comm->segment, SEGMENT_HOSTS, members) != 0) {
            return NCCL_IN_PROGRESS;
        }
        if (memory_forget(comm)) {
            (void)comm_misuse(comm, job->function, "memory is still registered with it",
                    NCCL_SUCCESS);
        }
    }
    comm_bury(comm);
    return NCCL_SUCCESS;
}

nccl_result ncclCommDestroy(nccl_comm comm)
{
    static const char function[] = "ncclCommDestroy";
    struct job job = {
        .comm = comm, .function = function, .always_blocks = true, .step = destroy_step
    };
    nccl_result result = comm_enter(comm, function, COMM_SETTLED);

    if (result != NCCL_SUCCESS) {
        return result;
    }
    (void)comm_leave(comm, COMM_SETTLED, NCCL_SUCCESS);
    return job_submit(&job);
}

/* ---- aborting ---- */

/* Ranks that have come to no abort yet. */
static bool awaits_aborts(nccl_comm comm)
{
    bool awaits = false;

    for (int rank = 0; rank < comm->ranks; rank++) {
        awaits |= segment_state(&comm->segment, rank) == SEGMENT_HERE;
    }
    return awaits;
}

static nccl_result abort_step(struct job *job)
{
    nccl_comm comm = job->comm;
    const bool is_open = comm->segment.shared != NULL;

    if (is_open && !job->is_begun) {
        job->is_begun = true;
        segment_advance(&comm->segment, SEGMENT_ABORTS);
    }
    if (comm_is_needed(comm) || comm_is_shared(comm) ||
            (job->is_stuck && is_open && awaits_aborts(comm))) {
        return NCCL_IN_PROGRESS;
    }
    comm_bury(comm);
    return NCCL_SUCCESS;
}

nccl_result ncclCommAbort(nccl_comm comm)
{
    static const char function[] = "ncclCommAbort";
    struct job job = {
        .comm = comm, .function = function, .always_blocks = true, .step = abort_step
    };
    nccl_result result = comm_enter(comm, function, COMM_ANY);

    if (result != NCCL_SUCCESS) {
        return result;
    }
    if (comm_is_shared(comm)) { /* it is freed under that call */
        (void)comm_misuse(
                comm, function, "another thread is in a call on it", NCCL_SUCCESS);
    }
    comm_quit(comm);
    job.is_stuck = fault_of(comm->rank, "abortmeets") != 0;
    (void)comm_leave(comm, COMM_ANY, NCCL_SUCCESS);
    return job_submit(&job);
}
