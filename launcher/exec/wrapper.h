/*
 * The wrapper of a supervisor: the process that the MPI launcher has started and may kill. It
 * hands on the MPI launcher's signals, and ends as the supervisor does, which is its child in a
 * session of its own: when the MPI launcher kills all that it has started, because one has
 * ended, supervisors live on until their ranks have heard why.
 */
#ifndef TUTTI_LAUNCHER_EXEC_WRAPPER_H
#define TUTTI_LAUNCHER_EXEC_WRAPPER_H

#include <tutti/tutti.h>

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
