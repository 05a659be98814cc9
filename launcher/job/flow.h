/*
 * A job as it runs: all that job.c's loop, supervisor_events.c and flow.c share, and what flow.c
 * decides: when a cause is known, to whom it is sent, what is stopped, and when all is over.
 *
 *   a rank ends badly -- settle --> cause -- FAILURE to survivors -- grace --> STOP
 *        -- all have ended or are lost --> RELEASE -- the MPI launcher ends --> report
 */
#ifndef TUTTI_LAUNCHER_JOB_FLOW_H
#define TUTTI_LAUNCHER_JOB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/job/console.h"
#include "launcher/job/dashboard.h"
#include "launcher/job/exchange.h"
#include "launcher/job/job.h"
#include "launcher/job/launcher_process.h"
#include "launcher/job/ranks.h"
#include "launcher/job/recordings.h"
#include "launcher/job/report.h"
#include "launcher/job/top.h"
#include "launcher/session/server.h"

#define JOB_NS_PER_MS INT64_C(1000000)

enum job_state {
    JOB_PLANNED, /* nothing was started yet                                     */
    JOB_SPAWNING, /* the MPI launcher runs; not every supervisor has sent HELLO        */
    JOB_RUNNING, /* all supervisors are there                                   */
    JOB_RESHAPING, /* of an elastic job: the ranks have got a notice to leave     */
    JOB_STOPPING, /* a cause is known: it is sent to all ranks, which then end    */
    JOB_DONE, /* every rank ended well                                       */
    JOB_FAILED, /* every rank has ended or is lost, and there is a cause       */
    JOB_STATE_COUNT
};

enum {
    JOB_PATH_MAX = 4096, /* bytes of the folder of logs with its zero             */
    JOB_INPUT_MAX =
            4096 /* bytes typed that wait for the MPI launcher                  */
};

/** What tuttirun waits for, beside supervisors. */
enum job_watch {
    JOB_SIGNALS,
    JOB_LAUNCHER_END,
    JOB_LAUNCHER_OUTPUT,
    JOB_LAUNCHER_ERRORS,
    JOB_INPUT,
    JOB_LAUNCHER_INPUT,
    JOB_STDOUT,
    JOB_STDERR,
    JOB_WATCHES
};

/** The MPI launcher of the job: mpirun, mpiexec or srun. */
struct job_launcher {
    char name[64]; /* "mpirun"                                                    */
    struct launcher_process process;
    struct launcher_output output;
    size_t shown; /* lines of its output that were shown                        */
    struct abort_words
            aborted; /* who called MPI_Abort(), by its output and that of ranks */
    int orphan; /* first rank whose daemon of the launcher is gone; where has_orphan */
    bool has_orphan; /* there is one                                             */
    int64_t term_at; /* when it gets SIGTERM; 0: not yet                          */
    int64_t kill_at; /* when it is killed; 0: not yet                             */
};

/** Heartbeats (beats.c). Times are those of our clock. */
struct job_beats {
    int interval_ms; /* between two of a supervisor                              */
    int64_t next; /* when they are sent, and silence is looked at               */
    int64_t slept_ns; /* for how long none was sent because tuttirun did not run  */
    int64_t woke; /* when that was over; some time later slept_ns is 0          */
};

/** When the steps towards the end of the job are due, by our clock. */
struct job_due {
    int64_t settle_at; /* the cause is decided; 0: nothing is suspected           */
    int postponed; /* how often that was put off                              */
    int64_t stop_at; /* survivors are stopped; 0: not yet known                  */
    int64_t lose_at; /* those that stay are given up; 0: none were stopped       */
    int64_t leave_at; /* nothing more is waited for; 0: not yet                   */
};

/** Signals to tuttirun. */
struct job_signals {
    int fd; /* signalfd                                                       */
    bool must_leave; /* of an elastic job: SIGTERM or SIGUSR1 came               */
    bool was_interrupted; /* another signal to end came while the job ended      */
    bool noted_suspend; /* the note about Ctrl-Z was shown                         */
};

/** What was typed, for the MPI launcher. */
struct job_input {
    char bytes[JOB_INPUT_MAX];
    size_t len;
};

/** Absolute paths for supervisors; "": none. */
struct job_paths {
    char log_folder[JOB_PATH_MAX];
    char metrics_file[JOB_PATH_MAX];
};

struct job {
    const struct job_plan *plan; /* what is run                                   */
    const struct options *options; /* of plan                                  */
    const struct job_hooks *hooks; /* likewise; NULL: the job is not elastic    */
    char name[JOB_NAME_MAX]; /* identity of the job                               */
    struct job_paths paths;
    enum job_state state; /* written by job_advance()                             */
    struct ranks ranks; /* what is known of each                                */
    struct cause cause; /* why it fails; CAUSE_NONE: it does not                */
    struct server server; /* links of supervisors                                 */
    struct job_launcher launcher;
    struct exchange exchange; /* between ranks that start                        */
    struct recordings recordings; /* of ranks                                   */
    struct top top; /* --top                                                 */
    struct dashboard dashboard; /* --dashboard                               */
    struct console console; /* stdout and stderr                                   */
    struct loop loop; /* all descriptors                                     */
    struct loop_watch watches[JOB_WATCHES]; /* but those of the server                */
    struct job_signals signals;
    struct job_input input;
    int64_t start; /* our clock: when the MPI launcher was started           */
    int64_t now; /* our clock: of this turn of the loop                  */
    struct job_beats beats;
    struct job_due due;
    uint32_t notice; /* that was sent to the ranks (tutti_notice); 0: none      */
    bool has_paused; /* links that are not read until the console has room     */
    bool has_refused; /* a stranger, which was shown                            */
    bool was_released; /* every supervisor has got RELEASE                       */
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
void flow_send_all(struct job *job, const struct link_message *message);
/** Sends a heartbeat over a connection. */
void flow_send_beat(struct job *job, struct server_link *link);
/** The program of a rank is in this state (struct link_beat). */
void flow_note_state(const struct job *job, struct server_link *link, uint8_t state);
/** A connection has ended or is given up: its rank is lost unless it had ended. */
void flow_lose(struct job *job, struct server_link *link, enum rank_end end,
        const char *detail);
/** Shows what the MPI launcher printed and was not shown yet. */
void flow_show_launcher(struct job *job);
/** Something may have failed: the cause is decided after a moment. */
void flow_suspect(struct job *job);
/** The job fails for a reason that is no rank's: sends it to the survivors. */
void flow_fail(struct job *job, enum cause_kind kind, int exit_status,
        const char *format, ...) __attribute__((format(printf, 4, 5)));
/** Tells the ranks of a job that runs something (tutti_notice) upon which they leave. */
void flow_notice(struct job *job, uint32_t notice);
/** A signal to tuttirun. */
void flow_signal(struct job *job, int number);
/** What is due: start, settling, stopping, releasing, the end of the MPI launcher. */
void flow_step(struct job *job);
/** When flow_step() has something to do next, our clock; INT64_MAX: not by time. */
int64_t flow_next(const struct job *job);
/** How long an MPI launcher has to end by itself once its ranks have, after a failure. */
int flow_launcher_patience_ms(const struct job *job);
/** True when nothing is left to wait for. */
bool flow_is_over(const struct job *job);

struct job;
struct options;

/** Between two: --heartbeat-ms, or longer in a wide job, so that all take a few percent of a core. */
int beats_interval_ms(const struct options *options);
/** Sends them, and looks for silence, when that is due. */
void beats_step(struct job *job);

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
