/*
 * The guardian of a rank: a process in a session of its own that kills what the rank has
 * started when its supervisor dies, whoever kills it and how.
 */
#ifndef TUTTI_LAUNCHER_EXEC_GUARDIAN_H
#define TUTTI_LAUNCHER_EXEC_GUARDIAN_H

#include <stdint.h>

#include <tutti/tutti.h>

/**
 * Starts it. It holds no other descriptor of this process, for starters wait until all ends of
 * a rank's output are closed.
 * @param mark  environment entry of the rank's processes, "NAME=VALUE"
 * @param since  when the rank was started, by shm_cleanup_clock()
 * @param front_fd  from front_start(): a supervisor that is stopped when its front has been
 *                  killed is killed, too
 * @param[out] fd  to be kept open; its end wakes the guardian
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status guardian_start(
        const char *mark, int64_t since, int front_fd, int *fd);
/** Nothing is left to be killed: it may go. Closes fd. */
void guardian_dismiss(int fd);

#endif
