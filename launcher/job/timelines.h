/*
 * Timelines of ranks (lib/observe/timeline.h), as tuttirun sees them: SIGUSR2 to it begins and ends them
 * in all ranks, and FILE.json is made of them when the job ends.
 */
#ifndef TUTTI_LAUNCHER_JOB_TIMELINES_H
#define TUTTI_LAUNCHER_JOB_TIMELINES_H

#include <stdbool.h>

struct job;
struct server_link;

/** Begins them where they are off, ends them where they are on. False: the job has none. */
bool timelines_toggle(struct job *job);
/** Tells a supervisor that comes what the others have been told. */
void timelines_send(struct job *job, struct server_link *link);
/** The job is over. */
void timelines_end(struct job *job);

#endif
