/*
 * The recordings of ranks (observe/recorder.h) as tuttirun collects them: into the directory of the
 * parameter record_dir, else a new one in /tmp, when a rank has reported a stall, when somebody
 * asks, and when the job fails. They are kept when it has failed; when a signal to
 * tuttirun has ended it, only where a directory was named.
 */
#ifndef TUTTI_LAUNCHER_JOB_RECORDINGS_H
#define TUTTI_LAUNCHER_JOB_RECORDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/session/link.h"

struct job;
struct server_link;

enum {
    RECORDINGS_PATH_MAX = 4096
};

struct recordings {
    char folder[RECORDINGS_PATH_MAX]; /* "": none was needed yet                  */
    bool is_ours; /* nobody named it                                      */
    bool has_failed; /* it cannot be written, which was said                 */
    bool is_asked; /* all ranks were asked, and have not all answered      */
    int answers; /* since then                                           */
    int64_t due; /* when those that are there are all that come; where is_asked  */
    int64_t quiet_until; /* a stall that is reported sooner asks nobody           */
    uint32_t
            timeline_asked; /* of the timelines of all ranks, as in struct link_message; 0: nothing */
};

/** Asks all ranks; what they say is told when they have answered. */
void recordings_ask(struct job *job, bool with_stacks);
/** A part has come. */
void recordings_take(struct job *job, int rank, const struct link_recording *part);
/** Says what they say together, when that is due. */
void recordings_step(struct job *job);
/** The job is over: says where they are, or removes them. */
void recordings_end(struct job *job);
/** Another generation follows: removes them, unless the user named their place. */
void recordings_drop(struct job *job);

/**
 * Asks the tuttirun of a pid. @return TUTTI_OK, TUTTI_ERR_INVALID (it is none, or would end by
 * that: it is just being started), TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status recordings_ask_process(int pid);

/*
 * Timelines of ranks (lib/observe/timeline.h), as tuttirun sees them: SIGUSR2 to it begins and ends them
 * in all ranks, and FILE.json is made of them when the job ends.
 */

/** Begins them where they are off, ends them where they are on. False: the job has none. */
bool timelines_toggle(struct job *job);
/** Tells a supervisor that comes what the others have been told. */
void timelines_send(struct job *job, struct server_link *link);
/** The job is over. */
void timelines_end(struct job *job);

#endif
