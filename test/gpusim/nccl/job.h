/*
 * Work of a host call that may take several steps and need other ranks: making and splitting
 * communicators, launching, ending. A call makes a job and submits it. In a group, which may have
 * calls of one communicator, it is kept until ncclGroupEnd; for a blocking communicator it is then
 * stepped until it is done; for one that is not it becomes pending, and only polls
 * (ncclCommGetAsyncError) step it.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_JOB_H
#define TUTTI_TEST_GPUSIM_NCCL_JOB_H

#include <stdbool.h>

#include "test/gpusim/nccl/comm.h"

struct job {
    nccl_comm comm; /* whose polls step it                          */
    nccl_comm waits; /* on whose bell it waits                       */
    const char *function; /* for reports                                  */
    bool always_blocks; /* ncclCommDestroy and ncclCommAbort            */
    int polls; /* not blocking: polls that find nothing done   */
    struct patience patience;
    /* Success, NCCL_IN_PROGRESS, or an error; not called again after another result than
     * NCCL_IN_PROGRESS. */
    nccl_result (*step)(struct job *job);
    void (*dispose)(struct job *job); /* frees it, also when it was never done */
};

/* Takes the job over; what the call returns. */
nccl_result job_submit(struct job *job);

/* ncclGroupStart and ncclGroupEnd. */
void job_group_start(void);
nccl_result job_group_end(void);
/* Inside of a group a call has failed: the group will launch nothing. Gives it back. */
nccl_result job_group_failed(nccl_result result);
/* The kept job of this communicator with this step in the thread's group, or NULL. */
struct job *job_in_group(nccl_comm comm, nccl_result (*kind)(struct job *job));

/* A poll: steps what is pending, and says how far it is. */
nccl_result job_poll(nccl_comm comm);
/* Forgets what is pending; the lock of the communicator is held. */
void job_drop_pending_locked(nccl_comm comm);

#endif
