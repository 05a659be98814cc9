/*
 * The MPI launcher (mpirun, mpiexec, srun) as a process: it has a process group of its own, so
 * that a terminal's signals reach tuttirun alone; its words come through pipes; it is
 * told when tuttirun dies, and a guardian ends what is left of it.
 */
#ifndef TUTTI_LAUNCHER_JOB_LAUNCHER_PROCESS_H
#define TUTTI_LAUNCHER_JOB_LAUNCHER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <tutti/tutti.h>

/** Zeroed with every descriptor -1 is valid input for launcher_process_fini(). */
struct launcher_process {
    pid_t pid; /* and its process group; 0: not started             */
    int pidfd; /* readable when it has ended; -1: to be polled        */
    int output; /* its stdout and stderr, non-blocking; -1: ended    */
    int errors;
    int input; /* to its stdin when ours is a terminal, non-blocking; -1: it has ours */
    int guardian_fd; /* of what ends the group when tuttirun dies; -1: none */
    bool has_ended; /* and was waited for                                */
    int status; /* of waitpid()                                      */
};

extern const struct launcher_process launcher_process_none;

/**
 * Starts a command.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (it cannot be run; names it)
 */
TUTTI_MUST_USE tutti_status launcher_process_start(struct launcher_process *launcher,
        char *const *command, char *const *environment);
/** Looks whether it has ended; true once. */
bool launcher_process_reap(struct launcher_process *launcher);
/** A signal to its group. */
void launcher_process_signal(const struct launcher_process *launcher, int number);
/** "status 1" or "signal 9 (SIGKILL)": how it ended. */
void launcher_process_words(
        const struct launcher_process *launcher, char *text, size_t capacity);
/** Kills what is left, dismisses the guardian and closes. */
void launcher_process_fini(struct launcher_process *launcher);
/**
 * After a failure: what the MPI launcher has started in sessions of its own, as an ssh to a host
 * that is cut off, has so long to end, and is killed then.
 * @param share  folder of connections that stay (elastic/ssh_share.h); NULL: there is none
 */
void launcher_process_end_rest(int patience_ms, const char *share);

/*
 * What the MPI launcher itself prints: cut into lines, the last of which are kept. Pure.
 */

enum {
    LAUNCHER_OUTPUT_LINES = 100, /* that are kept            */
    LAUNCHER_OUTPUT_LINE_MAX = 1024 /* bytes of one with its zero */
};

/** Zeroed is valid and empty. */
struct launcher_output {
    char lines[LAUNCHER_OUTPUT_LINES]
              [LAUNCHER_OUTPUT_LINE_MAX]; /* a ring                            */
    size_t count; /* lines ever kept: the last is at (count - 1) % LAUNCHER_OUTPUT_LINES */
    char partial
            [LAUNCHER_OUTPUT_LINE_MAX]; /* of a line without its newline               */
    size_t partial_len;
};

/** Is called with each line that is complete, without its newline. */
typedef void (*launcher_output_show)(void *context, const char *line);

/** Takes bytes; long lines are cut, empty ones and control characters left out. */
void launcher_output_add(struct launcher_output *output, const char *bytes, size_t len,
        launcher_output_show show, void *context);
/** The end of the bytes: a last line without a newline is one. */
void launcher_output_end(
        struct launcher_output *output, launcher_output_show show, void *context);
/** How many lines are kept, and the i-th of them, oldest first. */
size_t launcher_output_kept(const struct launcher_output *output);
const char *launcher_output_line(const struct launcher_output *output, size_t i);

/*
 * What MPI prints when a rank calls MPI_Abort(). It then kills all ranks and supervisors at
 * once, so these words are all that tells who it was. Pure.
 *
 *   Open MPI   MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
 *              with errorcode 9.
 *   MPICH      Abort(9) on node 3 (rank 3 in comm 0): application called
 *              MPI_Abort(MPI_COMM_WORLD, 9) - process 3
 */

/** What was read so far. Zeroed: nothing. */
struct abort_words {
    int rank; /* in MPI_COMM_WORLD; where has_rank */
    int code; /* that it gave; where has_code      */
    bool has_rank;
    bool has_code;
};

/** Takes text of the MPI launcher or of a rank's stderr: whole lines, as many as there are. */
void abort_words_take(struct abort_words *words, const char *text, size_t len);
/** True when a rank has called it, and rank and code are known. */
bool abort_words_are_complete(const struct abort_words *words);

#endif
