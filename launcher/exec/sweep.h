/*
 * Shared memory that a killed rank left in /dev/shm. A file goes only when all of this
 * holds: its name is one that MPI, UCX, NCCL or PSM gives, it belongs to this user, it
 * was made after the rank started, and no process of this user has it open or mapped.
 */
#ifndef TUTTI_LAUNCHER_EXEC_SWEEP_H
#define TUTTI_LAUNCHER_EXEC_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** What tells leftovers from other files. */
struct sweep {
    const char *folder; /* "/dev/shm", or a test's                       */
    uid_t user; /* whose files                                   */
    int64_t since; /* made not before: nanoseconds of sweep_clock() */
};

/** The clock of files. */
int64_t sweep_clock(void);
/** Pure: one of the names that are known. */
bool sweep_knows(const char *name);
/** Removes what is left. @return how many files */
size_t sweep_run(const struct sweep *sweep);
/**
 * Removes what is left in /dev/shm of this user; nothing where it is shared with processes
 * that cannot be seen, and so may be theirs.
 * @param since  when the rank was started
 */
void sweep_shared_memory(int64_t since);
/**
 * Pure: a container shares the host's memory but does not see its processes, as with
 * docker run --ipc=host.
 * @param pids, ipc  inodes of the namespaces
 */
bool sweep_is_blind(ino_t pids, ino_t ipc);

/** Pure: the device and inode of a line of /proc/PID/maps; false when it has none. */
bool sweep_parse_map(const char *line, dev_t *device, ino_t *inode);

#endif
