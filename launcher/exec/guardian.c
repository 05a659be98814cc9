/*
 * The guardian of a rank.
 */
#include "launcher/exec/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/exec/folder.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/shm_cleanup.h"

enum {
    QUIET_SCANS = 2, /* without a process, until it is believed that none is left */
    SCANS_MAX = 1000,
    DECIMAL = 10
};

static const int64_t scan_pause_ns = 10000000;
static const int look_ms = 100; /* between looks at a supervisor without its front */

/* Whom it is about. */
struct guarded {
    pid_t supervisor;
    pid_t group; /* that is the rank's; 0: none */
    int front_fd; /* see front.h                 */
};

/* Closes every descriptor but two. */
static void close_others(int keep, int keep_too)
{
    DIR *folder = opendir("/proc/self/fd");
    const char *name;

    while (folder != NULL && (name = folder_next(folder)) != NULL) {
        int fd = (int)strtol(name, NULL, DECIMAL);

        if (name[0] != '.' && fd != keep && fd != keep_too && fd != dirfd(folder)) {
            (void)close(fd);
        }
    }
    folder_close(folder);
}

/* The group is only the rank's when the supervisor was its leader. */
static void kill_all(const char *mark, pid_t group)
{
    int quiet = 0;

    if (group > 0) {
        (void)kill(-group, SIGKILL);
    }
    for (int scan = 0; scan < SCANS_MAX && quiet < QUIET_SCANS; scan++) {
        quiet = procs_kill_marked(mark) == 0 ? quiet + 1 : 0;
        if (quiet < QUIET_SCANS) {
            clock_sleep_ns(scan_pause_ns);
        }
    }
}

/*
 * Returns true when the supervisor died, false when it dismissed the guardian. One that is
 * stopped when the starter has killed its front will not hear any more that it should end.
 */
static bool watch(int fd, int front_fd, pid_t supervisor)
{
    struct pollfd polled[] = { { .fd = fd, .events = POLLIN }, { .fd = front_fd } };
    bool is_front_gone = false;
    char byte;

    while (polled[0].revents == 0) {
        (void)poll(polled, 2, is_front_gone ? look_ms : -1);
        if (polled[1].revents != 0) {
            is_front_gone = true;
            polled[1].fd = -1;
        }
        if (is_front_gone && process_state(supervisor) == 'T') {
            (void)kill(supervisor, SIGKILL);
        }
    }
    return read(fd, &byte, 1) <= 0;
}

static _Noreturn void guard(
        const char *mark, int64_t since, int fd, const struct guarded *guarded)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "tutti-guardian");
    close_others(fd, guarded->front_fd);
    if (chdir("/") == 0 && watch(fd, guarded->front_fd, guarded->supervisor)) {
        kill_all(mark, guarded->group);
        shm_cleanup(since);
    }
    _exit(EXIT_SUCCESS);
}

tutti_status guardian_start(const char *mark, int64_t since, int front_fd, int *fd)
{
    const struct guarded guarded = {
        .supervisor = getpid(),
        .group = getpgrp() == getpid() ? getpid() : 0,
        .front_fd = front_fd,
    };
    int status = 0;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "make a pipe for the guardian");
    }
    pid = fork();
    if (pid == 0) {
        /* No child of the supervisor, which counts what is left by its children. */
        (void)close(ends[1]);
        pid = fork();
        if (pid == 0) {
            guard(mark, since, ends[0], &guarded);
        }
        _exit(pid > 0 ? EXIT_SUCCESS : errno);
    }
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        return error_set_errno(TUTTI_ERR_SYSTEM, "start the guardian");
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        (void)close(ends[1]);
        errno = WIFEXITED(status) && status != 0 ? WEXITSTATUS(status) : ECHILD;
        return error_set_errno(TUTTI_ERR_SYSTEM, "start the guardian");
    }
    *fd = ends[1];
    return TUTTI_OK;
}

void guardian_dismiss(int fd)
{
    static const char byte = 'q';

    /* When the guardian is gone already, nothing hears it. */
    (void)!write(fd, &byte, 1);
    (void)close(fd);
}
