/*
 * A job as it runs: all that job.c's loop, supervisor_events.c and flow.c share, and what flow.c
 * decides: when a cause is known, who is told, what is stopped, and when all is over.
 *
 *   a rank ends badly -- settle --> cause -- FAILURE to survivors -- grace --> STOP
 *        -- all have ended or are lost --> RELEASE -- the starter ends --> report
 */
#ifndef TUTTI_LAUNCHER_JOB_FLOW_H
#define TUTTI_LAUNCHER_JOB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/job/abort_words.h"
#include "launcher/job/console.h"
#include "launcher/job/dashboard.h"
#include "launcher/job/job.h"
#include "launcher/job/ranks.h"
#include "launcher/job/recordings.h"
#include "launcher/job/report.h"
#include "launcher/job/starter_output.h"
#include "launcher/job/starter_process.h"
#include "launcher/job/top.h"
#include "launcher/job/tree.h"
#include "launcher/session/server.h"

#define JOB_NS_PER_MS INT64_C(1000000)

enum job_state {
    JOB_PLANNED, /* nothing was started yet                                     */
    JOB_SPAWNING, /* the starter runs; not every supervisor has said hello        */
    JOB_RUNNING, /* all supervisors are there                                   */
    JOB_RESHAPING, /* of an elastic job: the ranks were told to leave             */
    JOB_STOPPING, /* a cause is known: ranks are told, then ended                */
    JOB_DONE, /* every rank ended well                                       */
    JOB_FAILED, /* every rank has ended or is lost, and there is a cause       */
    JOB_STATE_COUNT
};

enum {
    JOB_PATH_MAX = 4096, /* bytes of the folder of logs with its zero             */
    JOB_INPUT_MAX = 4096 /* bytes typed that wait for the starter                  */
};

/** What tuttirun waits for, beside supervisors. */
enum job_watch {
    JOB_SIGNALS,
    JOB_STARTER_END,
    JOB_STARTER_OUTPUT,
    JOB_STARTER_ERRORS,
    JOB_INPUT,
    JOB_STARTER_INPUT,
    JOB_STDOUT,
    JOB_STDERR,
    JOB_WATCHES
};

struct job {
    const struct job_plan *plan; /* what is run                                   */
    const struct options *options; /* of plan                                  */
    const struct job_hooks *hooks; /* likewise; NULL: the job is not elastic    */
    char starter_name[64]; /* "mpirun"                                          */
    char name[JOB_NAME_MAX]; /* identity of the job                               */
    char log_folder[JOB_PATH_MAX]; /* absolute; "": none                           */
    char metrics_file[JOB_PATH_MAX]; /* likewise                                    */
    enum job_state state; /* written by job_advance()                             */
    struct ranks ranks; /* what is known of each                                */
    struct cause cause; /* why it fails; CAUSE_NONE: it does not                */
    struct server server; /* links of supervisors                                 */
    struct tree tree; /* how they are connected, where not all are to us (job_tree.h) */
    struct server_link *
            *of_rank; /* links by rank, NULL: not here yet; with a tree, else NULL */
    struct starter_process starter; /* what starts them                             */
    struct starter_output
            starter_output; /* by the starter                                        */
    int orphan; /* first rank whose starter's daemon is gone; where has_orphan */
    bool has_orphan; /* there is one                                         */
    struct abort_words
            aborted; /* who called MPI_Abort(), by the starter and by ranks */
    size_t starter_output_shown; /* lines of it that were shown                          */
    struct recordings recordings; /* what ranks did last                            */
    uint32_t
            timeline_asked; /* of all ranks: odd, to begin; even, to end; 0: nothing       */
    struct top top; /* how they are doing                                 */
    struct dashboard dashboard; /* the same for browsers                     */
    struct console console; /* stdout and stderr                                   */
    struct loop loop; /* all descriptors                                     */
    struct loop_watch watches[JOB_WATCHES]; /* but those of the server                */
    int signals; /* signalfd                                             */
    char input[JOB_INPUT_MAX]; /* typed, for the starter                            */
    size_t input_len; /* of it                                               */
    int64_t start; /* our clock: when the starter was started               */
    int64_t now; /* our clock: of this turn of the loop                  */
    int64_t next_beat; /* when heartbeats go out and silence is looked at      */
    int64_t slept_ns; /* how long no heartbeat went out when tuttirun did not run */
    int64_t woke; /* when that was over; some time later slept_ns is 0       */
    int64_t settle_at; /* when the cause is decided; 0: nothing is suspected   */
    int postponed; /* how often that was put off                          */
    int64_t stop_at; /* when survivors are stopped; 0: not yet known         */
    int64_t lose_at; /* when those that stay are given up; 0: none were stopped */
    int64_t end_starter_at; /* when the starter is told to end; 0: not yet          */
    int64_t kill_starter_at; /* when it is killed; 0: not yet                       */
    int64_t leave_at; /* when nothing more is waited for; 0: not yet          */
    uint32_t notice; /* that was sent to the ranks (tutti_notice); 0: none      */
    bool must_leave; /* of an elastic job: SIGTERM or SIGUSR1 came to tuttirun  */
    bool was_interrupted; /* another signal to end came while it ended          */
    bool was_released; /* every supervisor was told to end                     */
    bool said_suspend; /* the note about Ctrl-Z was shown                      */
};

/** Of an elastic job, from 1; 0: it is none. */
static inline uint32_t job_generation(const struct job *job)
{
    return job->hooks == NULL ? 0 : job->hooks->generation;
}

/** True when a job may go from one state to the other. */
bool job_may_advance(enum job_state from, enum job_state to);
/** The only writer of a job's state; a step that is not in the table is a bug. */
void job_advance(enum job_state *state, enum job_state to);

/** Sends what waits for a link; one that takes nothing is lost. */
void flow_flush(struct job *job, struct server_link *link);
/** Sends a message to a supervisor. */
void flow_send(
        struct job *job, struct server_link *link, const struct link_message *message);
/** Sends a message to all whose program has not ended. */
void flow_tell(struct job *job, const struct link_message *message);
/** Sends a heartbeat over a connection. */
void flow_send_beat(struct job *job, struct server_link *link);
/** Tells a supervisor what has been told to all while it could not be reached. */
void flow_catch_up(struct job *job, struct server_link *link);
/** The program of a rank is in this state (struct link_beat). */
void flow_note_state(const struct job *job, struct server_link *link, uint8_t state);
/** A connection has ended or is given up: its rank is lost unless it had ended. */
void flow_lose(struct job *job, struct server_link *link, enum rank_end end,
        const char *detail);
/** Shows what the starter said and was not shown yet. */
void flow_show_starter(struct job *job);
/** Something may have failed: the cause is decided after a moment. */
void flow_suspect(struct job *job);
/** The job fails for a reason that is no rank's: tells the survivors. */
void flow_fail(struct job *job, enum cause_kind kind, int exit_status,
        const char *format, ...) __attribute__((format(printf, 4, 5)));
/** Tells the ranks of a job that runs something (tutti_notice) upon which they leave. */
void flow_notice(struct job *job, uint32_t notice);
/** A signal to tuttirun. */
void flow_signal(struct job *job, int number);
/** What is due: start, settling, stopping, releasing, the end of the starter. */
void flow_step(struct job *job);
/** When flow_step() has something to do next, our clock; INT64_MAX: not by time. */
int64_t flow_next(const struct job *job);
/** How long a starter has to end by itself once its ranks have, after a failure. */
int flow_starter_patience_ms(const struct job *job);
/** True when nothing is left to wait for. */
bool flow_is_over(const struct job *job);

/** A supervisor says who it is; `said` NULL: a stranger (supervisor_events.c). */
void supervisor_events_hello(struct server_link *link, struct meet_hello *said);
/** Bytes of a supervisor have come, or its connection ended (supervisor_events.c). */
void supervisor_events_read(struct job *job, struct server_link *link, bool is_broken);
/** Reads on where the console was full and is not any more. */
void supervisor_events_resume(struct job *job);
/** Sends heartbeats and looks for silence (beats.c). */
void beats_step(struct job *job);

#endif
