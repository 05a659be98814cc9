/*
 * A small job that uses a bit of everything.
 */
#ifndef TUTTI_TEST_TORTURE_JOB_H
#define TUTTI_TEST_TORTURE_JOB_H

#include <tutti/tutti.h>

enum {
    JOB_RANKS = 3
};

/** What a job is to do. */
struct job {
    bool trains; /* the training loop; else the library's calls */
    bool uses_layer; /* the rest of the trainer's layer */
    bool is_heard; /* what fails on one rank fails on all, before any finalizes */
    bool by_messages; /* ranks agree by messages alone */
    bool by_ucx; /* ... of UCX */
    const char *directory; /* of checkpoints */
};

/** One rank's part, but for the start and the end; the first error ends it. */
tutti_status job_run(tutti *t, const struct job *job);

#endif
