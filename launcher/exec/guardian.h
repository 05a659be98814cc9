/*
 * A guardian: a process in a session of its own that cleans up when the process that made
 * it has died, whoever killed that and how.
 */
#ifndef TUTTI_LAUNCHER_EXEC_GUARDIAN_H
#define TUTTI_LAUNCHER_EXEC_GUARDIAN_H

#include <tutti/tutti.h>

struct guardian_plan {
    void (*clean_up)(
            const void *context); /* in the guardian, once its maker is dead  */
    const void *context;
    int wrapper_fd; /* when this one is ready, a maker that is stopped is killed (wrapper.h);
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

#endif
