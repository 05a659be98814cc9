/*
 * Shared memory that a killed rank left in /dev/shm. Usually there is no candidate, and
 * then no process is looked at.
 */
#include "launcher/exec/sweep.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/exec/folder.h"

enum {
    CANDIDATES_MAX = 1024, /* files of one sweep                 */
    PATH_BYTES = NAME_MAX + 16,
    LINE_BYTES = PATH_MAX + 128, /* of a map: numbers and a path */
    HEXADECIMAL = 16,
    DECIMAL = 10
};

/* A file that may be a leftover. */
struct candidate {
    dev_t device;
    ino_t inode;
    char name[NAME_MAX + 1];
    bool is_used; /* a process has it */
};

struct candidates {
    struct candidate *items; /* owned */
    size_t count;
};

int64_t sweep_clock(void)
{
    struct timespec now = { .tv_sec = 0 };

    /* Files are dated by this one, which lags behind the exact clock. */
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool sweep_knows(const char *name)
{
    static const char *const prefixes[] = {
        "vader_segment.", /* Open MPI 4 */
        "sm_segment.", /* Open MPI 5 */
        "osc_rdma.", /* Open MPI, one-sided */
        "open_mpi.",
        "mpich_shar_tmp", /* MPICH */
        "mpich_",
        "Intel_MPI_",
        "ucx_shm_posix_", /* UCX */
        "nccl-", /* NCCL */
        "psm_shm.", /* Omni-Path and TrueScale */
        "psm2_shm.",
        "psm3_shm.",
    };

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_candidate(
        const struct sweep *sweep, int folder, const char *name, struct stat *file)
{
    return sweep_knows(name) && fstatat(folder, name, file, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(file->st_mode) && file->st_uid == sweep->user &&
            (int64_t)file->st_ctim.tv_sec * 1000000000 + file->st_ctim.tv_nsec >=
            sweep->since;
}

static void find_candidates(
        const struct sweep *sweep, DIR *folder, struct candidates *found)
{
    const char *name;
    size_t capacity = 0;

    while (found->count < CANDIDATES_MAX && (name = folder_next(folder)) != NULL) {
        struct stat file;
        struct candidate *candidate;

        if (!is_candidate(sweep, dirfd(folder), name, &file) ||
                !mem_grow(&found->items, &capacity, found->count + 1,
                        sizeof *found->items)) {
            continue;
        }
        candidate = &found->items[found->count++];
        *candidate = (struct candidate){ .device = file.st_dev, .inode = file.st_ino };
        (void)snprintf(candidate->name, sizeof candidate->name, "%s", name);
    }
}

static void mark_used(const struct candidates *found, dev_t device, ino_t inode)
{
    for (size_t i = 0; i < found->count; i++) {
        if (found->items[i].device == device && found->items[i].inode == inode) {
            found->items[i].is_used = true;
        }
    }
}

bool sweep_parse_map(const char *line, dev_t *device, ino_t *inode)
{
    unsigned int major_number;
    unsigned int minor_number;
    char *end;

    /* Address, permissions and offset come first. */
    for (int i = 0; i < 3; i++) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    major_number = (unsigned int)strtoul(line, &end, HEXADECIMAL);
    if (*end != ':') {
        return false;
    }
    minor_number = (unsigned int)strtoul(end + 1, &end, HEXADECIMAL);
    *device = makedev(major_number, minor_number);
    *inode = (ino_t)strtoull(end, NULL, DECIMAL);
    return *inode != 0;
}

static void mark_mapped(const struct candidates *found, const char *pid)
{
    char path[PATH_BYTES];
    char line[LINE_BYTES];
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%s/maps", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        dev_t device;
        ino_t inode;

        if (sweep_parse_map(line, &device, &inode)) {
            mark_used(found, device, inode);
        }
    }
    (void)fclose(file);
}

static void mark_open(const struct candidates *found, const char *pid)
{
    char path[PATH_BYTES];
    const char *name;
    DIR *folder;

    (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
    folder = opendir(path);
    while (folder != NULL && (name = folder_next(folder)) != NULL) {
        struct stat file;

        if (fstatat(dirfd(folder), name, &file, 0) == 0) {
            mark_used(found, file.st_dev, file.st_ino);
        }
    }
    folder_close(folder);
}

/* Returns false when processes cannot be seen: then nothing may be removed. */
static bool mark_all_used(const struct candidates *found)
{
    const char *name;
    DIR *folder = opendir("/proc");

    if (folder == NULL) {
        return false;
    }
    while ((name = folder_next(folder)) != NULL) {
        if (isdigit((unsigned char)name[0])) {
            mark_mapped(found, name);
            mark_open(found, name);
        }
    }
    folder_close(folder);
    return true;
}

static size_t remove_unused(DIR *folder, const struct candidates *found)
{
    size_t removed = 0;

    for (size_t i = 0; i < found->count; i++) {
        const struct candidate *file = &found->items[i];

        if (!file->is_used && unlinkat(dirfd(folder), file->name, 0) == 0) {
            removed++;
        }
    }
    return removed;
}

bool sweep_is_blind(ino_t pids, ino_t ipc)
{
    /* The kernel gives those of the host these inodes, always. */
    static const ino_t host_ipc = 0xEFFFFFFF;
    static const ino_t host_pids = 0xEFFFFFFC;

    return ipc == host_ipc && pids != host_pids;
}

void sweep_shared_memory(int64_t since)
{
    const struct sweep sweep = {
        .folder = "/dev/shm",
        .user = geteuid(),
        .since = since,
    };
    struct stat pids;
    struct stat ipc;

    if (stat("/proc/self/ns/pid", &pids) == 0 && stat("/proc/self/ns/ipc", &ipc) == 0 &&
            !sweep_is_blind(pids.st_ino, ipc.st_ino)) {
        (void)sweep_run(&sweep);
    }
}

size_t sweep_run(const struct sweep *sweep)
{
    struct candidates found = { .items = NULL };
    DIR *folder = opendir(sweep->folder);
    size_t removed = 0;

    if (folder == NULL) {
        return 0;
    }
    find_candidates(sweep, folder, &found);
    if (found.count > 0 && mark_all_used(&found)) {
        removed = remove_unused(folder, &found);
    }
    folder_close(folder);
    mem_free(found.items);
    return removed;
}
