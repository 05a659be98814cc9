#include "launcher/exec/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/exec/procs.h"
#include "launcher/exit_status.h"

static const int look_ms = 100; /* between looks at a maker without its wrapper */

/* Where the guardian has its two descriptors. */
enum {
    LEASH_FD,
    WRAPPER_FD,
    OTHER_FDS
};

/*
 * Returns true when the maker died, false when it dismissed the guardian. One that is
 * stopped when the MPI launcher has killed its wrapper will not hear any more that it should end.
 */
static bool watch(pid_t maker, bool has_wrapper)
{
    struct pollfd polled[] = { { .fd = LEASH_FD, .events = POLLIN },
        { .fd = has_wrapper ? WRAPPER_FD : -1 } };
    bool is_wrapper_gone = false;
    char byte;

    while (polled[0].revents == 0) {
        (void)poll(polled, 2, is_wrapper_gone ? look_ms : -1);
        if (polled[1].revents != 0) {
            is_wrapper_gone = true;
            polled[1].fd = -1;
        }
        if (is_wrapper_gone && process_state(maker) == 'T') {
            (void)kill(maker, SIGKILL);
        }
    }
    return read(LEASH_FD, &byte, 1) <= 0;
}

static _Noreturn void guard(const struct guardian_plan *plan, pid_t maker, int leash)
{
    const bool has_wrapper = plan->wrapper_fd >= 0;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "tutti-guardian");
    (void)dup2(leash, LEASH_FD);
    if (has_wrapper) {
        (void)dup2(plan->wrapper_fd, WRAPPER_FD);
    }
    closefrom(has_wrapper ? OTHER_FDS : WRAPPER_FD);
    if (chdir("/") == 0 && watch(maker, has_wrapper)) {
        plan->clean_up(plan->context);
    }
    _exit(EXIT_SUCCESS);
}

int fork_apart(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        pid = fork();
        if (pid == 0) {
            return 0;
        }
        _exit(pid > 0 ? EXIT_SUCCESS : errno);
    }
    if (pid < 0) {
        return -1;
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        errno = WIFEXITED(status) && status != 0 ? WEXITSTATUS(status) : ECHILD;
        return -1;
    }
    return 1;
}

tutti_status guardian_start(const struct guardian_plan *plan, int *fd)
{
    const pid_t maker = getpid();
    int ends[2];
    int forked;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "make a pipe for the guardian");
    }
    forked = fork_apart();
    if (forked == 0) {
        guard(plan, maker, ends[0]);
    }
    (void)close(ends[0]);
    if (forked < 0) {
        (void)close(ends[1]);
        return error_set_errno(TUTTI_ERR_SYSTEM, "start the guardian");
    }
    *fd = ends[1];
    return TUTTI_OK;
}

void guardian_dismiss(int fd)
{
    static const char byte = 'q';

    if (fd >= 0) {
        /* When the guardian is gone already, nothing hears it. */
        (void)!write(fd, &byte, 1);
        (void)close(fd);
    }
}

/* ------------------------------------------------------------- The wrapper */

/* Ends by the signal that the supervisor did, so that the MPI launcher sees no other. */
static int status_of(int status)
{
    if (WIFSIGNALED(status)) {
        sigset_t number;

        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)sigemptyset(&number);
        (void)sigaddset(&number, WTERMSIG(status));
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)raise(WTERMSIG(status));
        (void)pthread_sigmask(SIG_UNBLOCK, &number, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_LAUNCHER;
}

/* Until the supervisor has ended; returns what to end with. */
static int stand(pid_t supervisor, int fd, const sigset_t *all)
{
    int status = 0;
    int number;

    do {
        number = sigwaitinfo(all, NULL);
        /* SIGPIPE would be our own, after the end of the supervisor. */
        if (number > 0 && number != SIGCHLD && number != SIGPIPE) {
            (void)!write(fd, &(unsigned char){ (unsigned char)number }, 1);
        }
    } while (number != SIGCHLD || waitpid(supervisor, &status, WNOHANG) != supervisor);
    return status_of(status);
}

tutti_status wrapper_start(int *fd, int *exit_status)
{
    sigset_t all;
    sigset_t before;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return error_set_errno(
                TUTTI_ERR_SYSTEM, "make a pipe for the engine's signals");
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid > 0) {
        (void)close(ends[0]);
        *fd = -1;
        *exit_status = stand(pid, ends[1], &all);
        return TUTTI_OK;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return error_set_errno(TUTTI_ERR_SYSTEM, "start the supervisor");
    }
    (void)setsid();
    *fd = ends[0];
    return TUTTI_OK;
}
