/*
 * The guardian of a rank.
 */
#include "launcher/exec/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/exec/folder.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/sweep.h"

enum {
    QUIET_SCANS = 2, /* without a process, until it is believed that none is left */
    SCANS_MAX = 1000,
    DECIMAL = 10
};

static const int64_t scan_pause_ns = 10000000;

/* Closes every descriptor but one. */
static void close_others(int keep)
{
    DIR *folder = opendir("/proc/self/fd");
    const char *name;

    while (folder != NULL && (name = folder_next(folder)) != NULL) {
        int fd = (int)strtol(name, NULL, DECIMAL);

        if (name[0] != '.' && fd != keep && fd != dirfd(folder)) {
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

/* Returns true when the supervisor died, false when it dismissed the guardian. */
static bool watch(int fd)
{
    char byte;
    ssize_t len;

    do {
        len = read(fd, &byte, 1);
    } while (len < 0 && errno == EINTR);
    return len <= 0;
}

static _Noreturn void guard(const char *mark, int64_t since, int fd, pid_t group)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "tutti-guardian");
    close_others(fd);
    if (chdir("/") == 0 && watch(fd)) {
        kill_all(mark, group);
        sweep_shared_memory(since);
    }
    _exit(EXIT_SUCCESS);
}

tutti_status guardian_start(const char *mark, int64_t since, int *fd)
{
    pid_t group = getpgrp() == getpid() ? getpid() : 0;
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
            guard(mark, since, ends[0], group);
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
