/*
 * The life of a job: PLANNED -> SPAWNING -> RUNNING -> DONE, or by STOPPING -> FAILED.
 */
#include "launcher/job/state.h"

#include <assert.h>

#define NEXT(state) (1U << JOB_##state)

static const unsigned job_next[JOB_STATE_COUNT] = {
    [JOB_PLANNED] = NEXT(SPAWNING) | NEXT(FAILED),
    [JOB_SPAWNING] = NEXT(RUNNING) | NEXT(STOPPING),
    [JOB_RUNNING] = NEXT(STOPPING) | NEXT(DONE),
    [JOB_STOPPING] = NEXT(FAILED),
    [JOB_DONE] = 0,
    [JOB_FAILED] = 0,
};

#undef NEXT

bool job_may_advance(enum job_state from, enum job_state to)
{
    return (job_next[from] & (1U << to)) != 0;
}

void job_advance(enum job_state *state, enum job_state to)
{
    assert(job_may_advance(*state, to));
    *state = to;
}

const char *job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATE_COUNT] = {
        [JOB_PLANNED] = "planned",
        [JOB_SPAWNING] = "spawning",
        [JOB_RUNNING] = "running",
        [JOB_STOPPING] = "stopping",
        [JOB_DONE] = "done",
        [JOB_FAILED] = "failed",
    };

    return names[state];
}
