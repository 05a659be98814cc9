/*
 * The front of a supervisor: the process that the starter has started and may kill. It
 * hands on the starter's signals, and ends as the supervisor does, which is its child in a
 * session of its own: when the starter kills all that it has started, because one has
 * ended, supervisors live on until their ranks have heard why.
 */
#ifndef TUTTI_LAUNCHER_EXEC_FRONT_H
#define TUTTI_LAUNCHER_EXEC_FRONT_H

#include <tutti/tutti.h>

/**
 * Forks. Returns at once in the child, which is the supervisor; in the parent, the front, when
 * that has ended.
 * @param[out] fd  supervisor: where each signal of the starter is read as a byte, at its end
 *                 when the front was killed; not blocking, owned by the caller. Front: -1
 * @param[out] exit_status  front: what to end with
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (there was no fork)
 */
TUTTI_MUST_USE tutti_status front_start(int *fd, int *exit_status);

#endif
