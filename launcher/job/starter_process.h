/*
 * The MPI launcher (mpirun, mpiexec, srun) as a process: it has a process group of its own, so
 * that a terminal's signals reach tuttirun alone; its words come through pipes; it is
 * told when tuttirun dies, and a guardian ends what is left of it.
 */
#ifndef TUTTI_LAUNCHER_JOB_STARTER_PROCESS_H
#define TUTTI_LAUNCHER_JOB_STARTER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <tutti/tutti.h>

/** Zeroed with every descriptor -1 is valid input for starter_process_fini(). */
struct starter_process {
    pid_t pid; /* and its process group; 0: not started             */
    int pidfd; /* readable when it has ended; -1: to be polled        */
    int output; /* its stdout and stderr, non-blocking; -1: ended    */
    int errors;
    int input; /* to its stdin when ours is a terminal, non-blocking; -1: it has ours */
    int guardian_fd; /* of what ends the group when tuttirun dies; -1: none */
    bool has_ended; /* and was waited for                                */
    int status; /* of waitpid()                                      */
};

extern const struct starter_process starter_process_none;

/**
 * Starts a command.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (it cannot be run; names it)
 */
TUTTI_MUST_USE tutti_status starter_process_start(struct starter_process *starter,
        char *const *command, char *const *environment);
/** Looks whether it has ended; true once. */
bool starter_process_reap(struct starter_process *starter);
/** A signal to its group. */
void starter_process_signal(const struct starter_process *starter, int number);
/** "status 1" or "signal 9 (SIGKILL)": how it ended. */
void starter_process_words(
        const struct starter_process *starter, char *text, size_t capacity);
/** Kills what is left, dismisses the guardian and closes. */
void starter_process_fini(struct starter_process *starter);
/**
 * After a failure: what the MPI launcher has started in sessions of its own, as an ssh to a host
 * that is cut off, has so long to end, and is killed then.
 */
void starter_process_end_rest(int patience_ms);

/*
 * What the MPI launcher itself prints: cut into lines, the last of which are kept. Pure.
 */

enum {
    STARTER_OUTPUT_LINES = 100, /* that are kept            */
    STARTER_OUTPUT_LINE_MAX = 1024 /* bytes of one with its zero */
};

/** Zeroed is valid and empty. */
struct starter_output {
    char lines[STARTER_OUTPUT_LINES]
              [STARTER_OUTPUT_LINE_MAX]; /* a ring                            */
    size_t count; /* lines ever kept: the last is at (count - 1) % STARTER_OUTPUT_LINES */
    char partial
            [STARTER_OUTPUT_LINE_MAX]; /* of a line without its newline               */
    size_t partial_len;
};

/** Is called with each line that is complete, without its newline. */
typedef void (*starter_output_show)(void *context, const char *line);

/** Takes bytes; long lines are cut, empty ones and control characters left out. */
void starter_output_add(struct starter_output *output, const char *bytes, size_t len,
        starter_output_show show, void *context);
/** The end of the bytes: a last line without a newline is one. */
void starter_output_end(
        struct starter_output *output, starter_output_show show, void *context);
/** How many lines are kept, and the i-th of them, oldest first. */
size_t starter_output_kept(const struct starter_output *output);
const char *starter_output_line(const struct starter_output *output, size_t i);

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
