/*
 * Two processes around a supervisor, and the first also around the MPI launcher.
 *
 * A guardian: a process in a session of its own that cleans up when the process that made
 * it has died, whoever killed that and how.
 */
#ifndef TUTTI_LAUNCHER_EXEC_GUARDIAN_H
#define TUTTI_LAUNCHER_EXEC_GUARDIAN_H

#include <tutti/tutti.h>

/**
 * Forks a process that is no child of this one, for supervisors count what is left by their children.
 * @return 0: in that process; 1: in this one; -1 with errno: there is none
 */
int fork_apart(void);

struct guardian_plan {
    void (*clean_up)(
            const void *context); /* in the guardian, once its maker is dead  */
    const void *context;
    int wrapper_fd; /* when this one is ready, a maker that is stopped is killed (wrapper_start());
                     -1: there is none */
};

/**
 * Starts it. It is no child of this process, and holds no other descriptor of it, for
 * MPI launchers wait until all ends of a rank's output are closed.
 * @param[out] fd  to be kept open; its end wakes the guardian
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status guardian_start(const struct guardian_plan *plan, int *fd);
/** Nothing is left to be cleaned up: it may go. Closes fd; -1: there is none. */
void guardian_dismiss(int fd);

/*
 * The wrapper of a supervisor: the process that the MPI launcher has started and may kill. It
 * hands on the MPI launcher's signals, and ends as the supervisor does, which is its child in a
 * session of its own: when the MPI launcher kills all that it has started, because one has
 * ended, supervisors live on until their ranks have heard why.
 */

/**
 * Forks. Returns at once in the child, which is the supervisor; in the parent, the wrapper, when
 * that has ended.
 * @param[out] fd  supervisor: where each signal of the MPI launcher is read as a byte, at its end
 *                 when the wrapper was killed; not blocking, owned by the caller. Wrapper: -1
 * @param[out] exit_status  wrapper: what to end with
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (there was no fork)
 */
TUTTI_MUST_USE tutti_status wrapper_start(int *fd, int *exit_status);

#endif
