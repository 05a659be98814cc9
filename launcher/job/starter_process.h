/*
 * The MPI launcher (mpirun, mpiexec, srun) as a process: it has a process group of its own, so
 * that a terminal's signals reach tuttirun alone; its words come through pipes; it is
 * told when tuttirun dies, and a guardian ends what is left of it.
 */
#ifndef TUTTI_LAUNCHER_JOB_STARTER_PROCESS_H
#define TUTTI_LAUNCHER_JOB_STARTER_PROCESS_H

#include <stdbool.h>
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

#endif
