/*
 * Shared memory that a killed rank left in /dev/shm. A file goes only when all of this
 * holds: its name is one that MPI, UCX, NCCL, PSM or tutti gives, it belongs to this user, it
 * was made after the rank started, and no process has it open or mapped, here or in another
 * container.
 */
#ifndef TUTTI_LAUNCHER_EXEC_SHM_CLEANUP_H
#define TUTTI_LAUNCHER_EXEC_SHM_CLEANUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** What tells leftovers from other files. */
struct sweep {
    const char *folder; /* "/dev/shm", or a test's                       */
    uid_t user; /* whose files                                   */
    int64_t since; /* made not before: nanoseconds of shm_cleanup_clock() */
};

/** The clock of files. */
int64_t shm_cleanup_clock(void);
/** Pure: one of the names that are known. */
bool shm_cleanup_knows(const char *name);
/** Removes what is left. @return how many files */
size_t shm_cleanup_run(const struct sweep *sweep);
/**
 * Removes what is left in /dev/shm of this user.
 * @param since  when the rank was started
 */
void shm_cleanup(int64_t since);

#endif
