/*
 * The life of a job under tuttirun: one enum, one table, one writer.
 */
#ifndef TUTTI_LAUNCHER_JOB_STATE_H
#define TUTTI_LAUNCHER_JOB_STATE_H

#include <stdbool.h>

enum job_state {
    JOB_PLANNED, /* nothing was started yet                                     */
    JOB_SPAWNING, /* the starter runs; not every supervisor has said hello        */
    JOB_RUNNING, /* all supervisors are there                                   */
    JOB_STOPPING, /* a cause is known: ranks are told, then ended                */
    JOB_DONE, /* every rank ended well                                       */
    JOB_FAILED, /* every rank has ended or is lost, and there is a cause       */
    JOB_STATE_COUNT
};

/** True when a job may go from one state to the other. */
bool job_may_advance(enum job_state from, enum job_state to);
/** The only writer of a job's state; a step that is not in the table is a bug. */
void job_advance(enum job_state *state, enum job_state to);
const char *job_state_name(enum job_state state);

#endif
