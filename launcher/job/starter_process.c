/*
 * The starter as a process.
 */
#include "launcher/job/starter_process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/exec/procs.h"
#include "launcher/job/exit_text.h"

enum {
    GUARDIAN_GRACE_US = 500000, /* between SIGTERM and SIGKILL of the guardian */
    REST_LOOK_US = 10000, /* between looks at what is left after a failure       */
    REST_LOOK_MS = REST_LOOK_US / 1000,
    EXIT_NOT_RUN = 127
};

const struct starter_process starter_process_none = {
    .pidfd = -1,
    .output = -1,
    .errors = -1,
    .input = -1,
    .leash = -1,
};

/* The two ends of each pipe; -1: none. */
struct pipes {
    int output[2];
    int errors[2];
    int input[2];
    int failure[2]; /* errno of exec; closed by a successful one */
};

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) {
            (void)close(pair[i]);
            pair[i] = -1;
        }
    }
}

static void pipes_close(struct pipes *pipes)
{
    close_pair(pipes->output);
    close_pair(pipes->errors);
    close_pair(pipes->input);
    close_pair(pipes->failure);
}

static tutti_status pipes_open(struct pipes *pipes)
{
    *pipes = (struct pipes){
        .output = { -1, -1 },
        .errors = { -1, -1 },
        .input = { -1, -1 },
        .failure = { -1, -1 },
    };
    /* A group in the background may not read the terminal: it gets a pipe. */
    if (pipe2(pipes->output, O_CLOEXEC) != 0 || pipe2(pipes->errors, O_CLOEXEC) != 0 ||
            pipe2(pipes->failure, O_CLOEXEC) != 0 ||
            (isatty(STDIN_FILENO) == 1 && pipe2(pipes->input, O_CLOEXEC) != 0)) {
        pipes_close(pipes);
        return error_set_errno(TUTTI_ERR_SYSTEM, "make pipes for the engine");
    }
    return TUTTI_OK;
}

/* Runs in the child; returns only when the command cannot be run. */
static void become(const struct pipes *pipes, pid_t parent, char *const *command,
        char *const *environment)
{
    sigset_t none;
    ssize_t done;
    int error;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        return;
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    if (dup2(pipes->output[1], STDOUT_FILENO) < 0 ||
            dup2(pipes->errors[1], STDERR_FILENO) < 0 ||
            (pipes->input[0] >= 0 && dup2(pipes->input[0], STDIN_FILENO) < 0)) {
        return;
    }
    (void)execve(command[0], command, environment);
    error = errno;
    done = write(pipes->failure[1], &error, sizeof error);
    (void)done;
}

/*
 * The guardian: in a session of its own, so that nothing sent to tuttirun's group or
 * terminal reaches it. It holds no descriptor but the leash: others wait for the end of
 * our streams. A byte sends it home; the end of the pipe means that tuttirun died.
 */
static void guard(int leash, pid_t group)
{
    char byte;
    ssize_t done;

    (void)setsid();
    if (leash != STDIN_FILENO) {
        (void)dup2(leash, STDIN_FILENO);
    }
    (void)close_range(1, ~0U, 0);
    do {
        done = read(STDIN_FILENO, &byte, 1);
    } while (done < 0 && errno == EINTR);
    if (done == 0) {
        (void)kill(-group, SIGTERM);
        (void)usleep(GUARDIAN_GRACE_US);
        (void)kill(-group, SIGKILL);
    }
}

static void start_guardian(struct starter_process *starter)
{
    int leash[2];
    pid_t pid;

    if (pipe2(leash, O_CLOEXEC) != 0) {
        return;
    }
    pid = fork();
    if (pid == 0) {
        (void)close(leash[1]);
        guard(leash[0], starter->pid);
        _exit(0);
    }
    (void)close(leash[0]);
    if (pid < 0) {
        (void)close(leash[1]);
        return;
    }
    starter->guardian = pid;
    starter->leash = leash[1];
}

/* Waits until the command runs; an error is that of exec. */
static tutti_status wait_for_exec(int failure, const char *command)
{
    int error = 0;
    ssize_t done;

    do {
        done = read(failure, &error, sizeof error);
    } while (done < 0 && errno == EINTR);
    if (done == (ssize_t)sizeof error) {
        errno = error;
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", command);
    }
    return TUTTI_OK;
}

static int take_end(int *fd)
{
    int taken = *fd;

    *fd = -1;
    if (taken >= 0) {
        (void)fcntl(taken, F_SETFL, fcntl(taken, F_GETFL) | O_NONBLOCK);
    }
    return taken;
}

tutti_status starter_process_start(
        struct starter_process *starter, char *const *command, char *const *environment)
{
    struct pipes pipes;
    pid_t self = getpid();
    tutti_status status = pipes_open(&pipes);

    *starter = starter_process_none;
    if (status != TUTTI_OK) {
        return status;
    }
    /* What it leaves behind is ours then: starter_process_end_rest(). */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    starter->pid = fork();
    if (starter->pid == 0) {
        become(&pipes, self, command, environment);
        _exit(EXIT_NOT_RUN);
    }
    if (starter->pid < 0) {
        starter->pid = 0;
        pipes_close(&pipes);
        return error_set_errno(TUTTI_ERR_SYSTEM, "start a process for %s", command[0]);
    }
    (void)setpgid(starter->pid, starter->pid);
    start_guardian(starter);
    (void)close(pipes.failure[1]);
    pipes.failure[1] = -1;
    status = wait_for_exec(pipes.failure[0], command[0]);
    starter->pidfd = (int)syscall(SYS_pidfd_open, starter->pid, 0);
    starter->output = take_end(&pipes.output[0]);
    starter->errors = take_end(&pipes.errors[0]);
    starter->input = take_end(&pipes.input[1]);
    pipes_close(&pipes);
    return status;
}

bool starter_process_reap(struct starter_process *starter)
{
    int status;

    if (starter->pid == 0 || starter->has_ended ||
            waitpid(starter->pid, &status, WNOHANG) != starter->pid) {
        return false;
    }
    starter->has_ended = true;
    starter->status = status;
    return true;
}

void starter_process_signal(const struct starter_process *starter, int number)
{
    if (starter->pid > 0) {
        (void)kill(-starter->pid, number);
    }
}

void starter_process_words(
        const struct starter_process *starter, char *text, size_t capacity)
{
    if (WIFSIGNALED(starter->status)) {
        exit_text_signal(WTERMSIG(starter->status), text, capacity);
    } else {
        (void)snprintf(text, capacity, "status %d", WEXITSTATUS(starter->status));
    }
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void starter_process_fini(struct starter_process *starter)
{
    ssize_t done;
    int status;

    starter_process_signal(starter, SIGKILL);
    if (starter->pid > 0 && !starter->has_ended) {
        (void)waitpid(starter->pid, &status, 0);
    }
    if (starter->guardian > 0) {
        done = write(starter->leash, "", 1);
        (void)done;
        close_fd(&starter->leash);
        (void)waitpid(starter->guardian, &status, 0);
    }
    close_fd(&starter->pidfd);
    close_fd(&starter->output);
    close_fd(&starter->errors);
    close_fd(&starter->input);
    *starter = starter_process_none;
}

void starter_process_end_rest(int patience_ms)
{
    for (int i = 0; i < patience_ms / REST_LOOK_MS && procs_signal_descendants(0) > 0;
            i++) {
        (void)usleep(REST_LOOK_US);
    }
    (void)procs_signal_descendants(SIGKILL);
}
