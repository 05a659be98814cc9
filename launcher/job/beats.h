/*
 * Heartbeats of supervisors, and what tuttirun does when they do not come.
 */
#ifndef TUTTI_LAUNCHER_JOB_BEATS_H
#define TUTTI_LAUNCHER_JOB_BEATS_H

struct job;
struct options;

/** Between two: --heartbeat-ms, or longer in a wide job, so that all take a few percent of a core. */
int beats_interval_ms(const struct options *options);
/** Sends them, and looks for silence, when that is due. */
void beats_step(struct job *job);

#endif
