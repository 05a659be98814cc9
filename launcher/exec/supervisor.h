/*
 * The supervisor of a rank: starts the program, reads its output, reports to tuttirun, and leaves
 * nothing of it behind. One thread, one loop:
 *
 *   STARTING --exec--> RUNNING --exit--> DRAINING --EXITED sent--> REPORTED --> ends
 *
 * It ends when tuttirun has released it, or is lost, and no process of the rank is left.
 *
 *   supervisor.c          the start of the program, and the loop
 *   uplink.h              the connection to tuttirun
 *   door.h                how ranks that start exchange bytes
 *   supervisor_look.c     the rank's recording, and what its process does
 *   supervisor_end.c      the end of the program, and of what it left behind; what asks for it
 */
#ifndef TUTTI_LAUNCHER_EXEC_SUPERVISOR_PARTS_H
#define TUTTI_LAUNCHER_EXEC_SUPERVISOR_PARTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tutti/tutti.h>

#include "base/failure_page.h"
#include "launcher/bind/bind.h"
#include "launcher/exec/child.h"
#include "launcher/exec/door.h"
#include "launcher/exec/exec.h"
#include "launcher/exec/keeper.h"
#include "launcher/exec/lines.h"
#include "launcher/exec/oom.h"
#include "launcher/exec/rank_output.h"
#include "launcher/exec/uplink.h"

enum {
    SUPERVISOR_MARK_BYTES = 320, /* NAME=JOB.RANK.PID                */
    SUPERVISOR_DETAIL_BYTES = 256 /* a sentence on a failed start     */
};

/**
 * MPI launchers send SIGTERM and kill within milliseconds when another rank has failed: so long
 * tuttirun has to send the cause before the program gets the signal.
 */
#define SUPERVISOR_TERM_NS ((int64_t)600000000)
/** The same when the MPI launcher has died, or has killed the wrapper, and sends nothing more. */
#define SUPERVISOR_ORPHAN_NS ((int64_t)2000000000)
#define SUPERVISOR_MILLISECOND ((int64_t)1000000)
/**
 * Grandchildren may hold the pipes; the report does not wait for them longer. What the program
 * itself has written is in the pipes when it ends, and is read before.
 */
#define SUPERVISOR_DRAIN_NS ((int64_t)20000000)

enum supervisor_phase {
    PHASE_STARTING, /* the result of exec is not known                */
    PHASE_RUNNING, /* the program runs                               */
    PHASE_DRAINING, /* it has ended; its last output is being read    */
    PHASE_REPORTED /* EXITED was sent                                */
};

/** What the supervisor waits for, beside tuttirun. */
enum supervisor_watch {
    WATCH_SIGNALS,
    WATCH_EXEC, /* how it went */
    WATCH_OUT,
    WATCH_ERR,
    WATCH_LAUNCHER,
    WATCH_WRAPPER,
    WATCHES
};

/** What is known when a program has ended. */
struct ending {
    int wait_status; /* of waitpid()                                          */
    int exec_errno; /* of exec; 0: the program ran                           */
    int setup_errno; /* why it could not even be started; 0: it was          */
    uint64_t
            signals; /* that the MPI launcher or tuttirun has sent, see ending_signal() */
    bool was_stopped; /* it was told to stop: STOP, or the MPI launcher is gone    */
};

/** The bit of a signal, 1 to 64, in `signals`. */
static inline uint64_t ending_signal(int number)
{
    return UINT64_C(1) << (number - 1);
}

/** True when a signal among these asks a program to end; however it then ends, that is why. */
bool ending_was_asked(uint64_t signals);
/** Fills ending, value, dumped_core and was_stopped. */
void ending_describe(const struct ending *ending, struct link_exited *exited);

/** The process of the MPI launcher on this host, and the wrapper that it has started (guardian.h). */
struct supervisor_launcher {
    pid_t pid; /* the parent of the wrapper                               */
    int pidfd; /* readable once that has died; -1: polled instead         */
    pid_t wrapper; /* our parent                                          */
    int wrapper_fd; /* signals of the MPI launcher; -1: the wrapper was killed */
    bool is_gone; /* it has died, or has killed the wrapper               */
    int64_t term_due; /* its SIGTERM is passed on; INT64_MAX: there is none   */
};

/** How processes and files that the rank leaves behind are found. */
struct supervisor_leftovers {
    int guardian_fd; /* -1: there is none                                 */
    pid_t group; /* process group of the rank; 0: that of others          */
    int64_t since; /* when the rank was started, by shm_cleanup_clock()   */
    char mark[SUPERVISOR_MARK_BYTES]; /* entry of the program's environment */
};

/** The recording of the rank (observe/recorder.h). */
struct supervisor_recording {
    int fd; /* -1: there is none                                          */
    bool was_sent; /* as it was when the job began to end                 */
    uint32_t stalls; /* in it, as far as tuttirun knows                   */
    uint32_t timeline_asked; /* of the library, by tuttirun; 0: nothing   */
    int64_t metrics_due; /* the next METRICS; 0: at once                  */
};

/** What the program writes. */
struct supervisor_streams {
    struct output out, err;
    struct tail tail; /* of err                                           */
    char folder[PATH_MAX]; /* of its logs; "": none                       */
    bool is_quiet; /* the last look at them found nothing                 */
    unsigned looks; /* since the program ended                            */
};

/** The end of the program, as EXITED reports it. */
struct supervisor_end {
    struct ending how;
    int64_t time;
    enum context_failure failure; /* of its context, when it was asked to end */
    enum library_stage stage; /* the same                                     */
    struct oom oom; /* how often memory ran short until now               */
    char detail[SUPERVISOR_DETAIL_BYTES]; /* of a failed start             */
};

/** How the program is ended. */
struct supervisor_stop {
    int64_t due; /* nothing came from tuttirun until then: the program ends; INT64_MAX: never */
    int64_t kill_due; /* SIGKILL to all that is left; INT64_MAX: never      */
    bool has_begun; /* SIGTERM was sent to all                            */
    bool is_killing; /* SIGKILL was                                       */
    bool is_awaited; /* tuttirun has sent a signal to end; STOP comes later */
    bool is_informed; /* the library has got the cause                        */
};

struct supervisor {
    const struct exec_plan *plan;
    struct uplink uplink; /* to tuttirun                                  */
    struct loop loop;
    struct loop_watch watches[WATCHES];
    struct supervisor_launcher launcher;
    struct supervisor_leftovers leftovers;
    int console; /* stderr of another host than the first (here/here.h); -1: nothing is told there */
    int signal_fd; /* SIGCHLD, and signals to the supervisor              */
    char binding[BIND_TEXT_MAX]; /* in words                              */
    struct failure_page failure_page; /* for the library                  */
    struct door door; /* by which the library speaks to other ranks   */
    struct keep keep; /* of an elastic job: memory that outlives the program */
    struct supervisor_recording recording;
    struct host_metrics metrics; /* of all ranks of the host, or this one's for them */
    struct supervisor_streams streams;
    struct child child; /* the program                                    */
    struct supervisor_end end;
    struct supervisor_stop stop;
    enum supervisor_phase phase;
    bool has_started; /* the program, or it could not be                    */
    bool has_children; /* processes are left below the supervisor         */
    int64_t looked; /* before the last look at what there is to be read   */
    bool suspects_tuttirun; /* the library has got that tuttirun is silent  */
    bool was_cut_off; /* tuttirun was silent for too long                  */
    bool is_released; /* tuttirun has sent RELEASE                        */
    int exit_status; /* of the supervisor                                 */
};

/** Adds where to record to the environment of the program; a rank that cannot be recorded runs as well. */
void supervisor_add_recorder(
        struct supervisor *supervisor, struct arguments *environment);
/** Sends the recording, with what the process does, once: the job begins to end. */
void supervisor_record_end(struct supervisor *supervisor);
/** Sends the recording, and the stacks of the threads, as if the program had printed them. */
void supervisor_look(struct supervisor *supervisor, bool with_stacks);
/** Writes into the recording that the library is to begin or to end its timeline. */
void supervisor_ask_timeline(const struct supervisor *supervisor);
/**
 * Sends METRICS when tuttirun wants them and they are due, and the recording when the library has reported
 * a stall; asks for a timeline.
 */
void supervisor_step_recording(struct supervisor *supervisor, int64_t now);

/** Reads how exec went, and sends STARTED. Call when the child's exec_fd is readable. */
void supervisor_read_exec(struct supervisor *supervisor);
/** Takes what has ended, of the program and of what it left behind. */
void supervisor_reap(struct supervisor *supervisor, int64_t now);
/**
 * The program has ended by a signal that what it left has got as well, and which may still save
 * something: it has its time, and the rank has not ended before.
 */
bool supervisor_is_saving(const struct supervisor *supervisor);
/** The end of the program: its last output, EXITED, and the end of what it left. */
void supervisor_report_end(struct supervisor *supervisor, int64_t now);

/** Tells the console of this host, once, why the job failed. */
void supervisor_tell(struct supervisor *supervisor, struct link_text text);
/** Carries out a message of tuttirun; called by the uplink, whose owner is the supervisor. */
void supervisor_obey(void *owner, const struct link_message *message, int64_t now);
/** Letter of the program's state, for beats; 0: it does not run. */
uint8_t supervisor_program_state(const void *owner);
/** Signals of the MPI launcher, or the end of the wrapper. */
void supervisor_read_wrapper(struct supervisor *supervisor, int64_t now);
/**
 * Ends the program where tuttirun or the MPI launcher is lost, passes on the MPI launcher's SIGTERM when
 * tuttirun has had its time, and kills what should have ended by now.
 */
void supervisor_step_end(struct supervisor *supervisor, int64_t now);

#endif
