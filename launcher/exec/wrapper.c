/*
 * The wrapper of a supervisor.
 */
#include "launcher/exec/wrapper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/exit_status.h"

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
