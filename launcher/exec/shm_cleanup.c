/*
 * Shared memory that a killed rank left in /dev/shm.
 *
 * Whether anybody still has a file is asked of the kernel: it grants a lease for writing
 * only on a file that nobody else has open or mapped, in whatever namespace. To look
 * through /proc instead would miss the processes of another container that shares
 * /dev/shm, and those whose maps may not be read.
 */
#include "launcher/exec/shm_cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    LOCK_TRIES = 100, /* a sweep takes far less, but anybody may hold the lock */
    LOCK_NAP_NS = 10000000
};

int64_t shm_cleanup_clock(void)
{
    struct timespec now = { .tv_sec = 0 };

    /* Files are dated by this one, which lags behind the exact clock. */
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The library's own, where there is no memfd: it has its name for a moment only. */
static bool is_ours(const char *name)
{
    return strncmp(name, "tutti-", 6) == 0 && strlen(name) == 6 + 16 &&
            strspn(name + 6, "0123456789abcdef") == 16;
}

bool shm_cleanup_knows(const char *name)
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
    return is_ours(name);
}

static bool is_candidate(const struct sweep *sweep, const struct stat *file)
{
    return S_ISREG(file->st_mode) && file->st_uid == sweep->user &&
            (int64_t)file->st_ctim.tv_sec * 1000000000 + file->st_ctim.tv_nsec >=
            sweep->since;
}

/* Nobody but the caller has it open or mapped, nor will before it is closed here. */
static bool is_unused(int file)
{
    /* Who opens it now has us signalled, by what is ignored. */
    return fcntl(file, F_SETSIG, SIGURG) == 0 && fcntl(file, F_SETLEASE, F_WRLCK) == 0;
}

static bool remove_if_left(const struct sweep *sweep, int folder, const char *name)
{
    struct stat facts;
    bool removed;
    int file;

    if (!shm_cleanup_knows(name) ||
            fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
            !is_candidate(sweep, &facts)) {
        return false;
    }
    file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    removed = is_unused(file) && unlinkat(folder, name, 0) == 0;
    (void)close(file);
    return removed;
}

/* Two that sweep at once would take each other for users of what they look at. */
static void lock_out_others(int folder)
{
    for (int i = 0; i < LOCK_TRIES && flock(folder, LOCK_EX | LOCK_NB) != 0 &&
            errno == EWOULDBLOCK;
            i++) {
        clock_sleep_ns(LOCK_NAP_NS);
    }
}

size_t shm_cleanup_run(const struct sweep *sweep)
{
    DIR *folder = opendir(sweep->folder);
    const struct dirent *entry;
    size_t removed = 0;

    if (folder == NULL) {
        return 0;
    }
    lock_out_others(dirfd(folder));
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is read by one thread */
    while ((entry = readdir(folder)) != NULL) {
        removed += remove_if_left(sweep, dirfd(folder), entry->d_name) ? 1 : 0;
    }
    (void)closedir(folder);
    return removed;
}

void shm_cleanup(int64_t since)
{
    const struct sweep sweep = {
        .folder = "/dev/shm",
        .user = geteuid(),
        .since = since,
    };

    (void)shm_cleanup_run(&sweep);
}
