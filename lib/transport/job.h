/*
 * A process's part in a job, as its provider gives it to the start of a context: MPI
 * (fabric/mpi), or UCX with one of the sources in boot/.
 */
#ifndef TUTTI_TRANSPORT_JOB_H
#define TUTTI_TRANSPORT_JOB_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "fabric/fabric.h"

struct op_backend;

/** How a job comes to its end. */
enum job_end {
    JOB_ENDED, /* all ranks have left it, and no message is under way */
    JOB_NOT_BEGUN, /* no rank could begin it; messages may be under way */
    JOB_FAILED /* the same for one that ran; not all ranks may come to their end */
};

struct job {
    const char *name; /* "openmpi", "mpich", "ucx" */
    struct fabric fabric;
    bool any_thread; /* the fabric may be called from any thread, one at a time */
    const struct op_backend *vendor; /* the provider's own collectives; NULL: none */
    void *vendor_native; /* its op_env.native */
    /*
     * Lets go of the job and frees it, but not what messages that are under way may touch.
     * An error says how it could not be left in order.
     */
    tutti_status (*leave)(struct job *job, enum job_end end);
    /*
     * Set by the owner, or NULL: asked by leave() while it waits for others. An error says
     * that not all will come, and ends the wait soon.
     */
    tutti_status (*look)(void *user);
    void *user; /* its argument */
};

/** Where a job comes from. */
struct job_source {
    /*
     * Takes part. refuses: only to tell that this rank cannot start, so nothing that cannot
     * be begun again in this process begins. TUTTI_ERR_NO_MEMORY: the others know nothing
     * of it, and a second call can tell them.
     */
    tutti_status (*join)(void *user, bool refuses, struct job **job);
    void *user;
};

#endif
