/*
 * Messages of supervisors to tuttirun.
 */
#ifndef TUTTI_LAUNCHER_JOB_SUPERVISOR_EVENTS_H
#define TUTTI_LAUNCHER_JOB_SUPERVISOR_EVENTS_H

#include <stdbool.h>

struct job;
struct meet_hello;
struct server_link;

/** HELLO; `said` NULL: it is a stranger's. */
void supervisor_events_hello(struct server_link *link, struct meet_hello *said);
/** Bytes have come, or the connection has ended. */
void supervisor_events_read(struct job *job, struct server_link *link, bool is_broken);
/** Reads what had to wait for room in the console, once there is some. */
void supervisor_events_resume(struct job *job);

#endif
