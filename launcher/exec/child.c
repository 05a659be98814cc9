/*
 * The program of a rank as a process.
 */
#include "launcher/exec/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"

enum {
    EXIT_CANNOT_RUN = 126,
    NAME_BYTES = 64
};

struct stream {
    int reader, writer;
};

/*
 * A terminal where the starter gave one, so that the program goes on writing line by line
 * and a crash does not lose what it has printed. It changes no byte.
 */
static bool open_terminal(struct stream *stream)
{
    struct termios settings;
    char name[NAME_BYTES];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (master < 0) {
        return false;
    }
    if (grantpt(master) != 0 || unlockpt(master) != 0 ||
            ptsname_r(master, name, sizeof name) != 0) {
        (void)close(master);
        return false;
    }
    stream->reader = master;
    stream->writer = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (stream->writer < 0 || tcgetattr(stream->writer, &settings) != 0) {
        (void)close(master);
        (void)(stream->writer < 0 ? 0 : close(stream->writer));
        return false;
    }
    cfmakeraw(&settings);
    (void)tcsetattr(stream->writer, TCSANOW, &settings);
    return true;
}

static bool open_pipe(struct stream *stream)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    *stream = (struct stream){ .reader = ends[0], .writer = ends[1] };
    return true;
}

static bool open_stream(struct stream *stream, int like)
{
    if (!(isatty(like) == 1 && open_terminal(stream)) && !open_pipe(stream)) {
        return false;
    }
    (void)fcntl(stream->reader, F_SETFL, O_NONBLOCK);
    return true;
}

static _Noreturn void become(
        const struct child_plan *plan, int out, int err, int exec_fd)
{
    int reason;

    if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0 &&
            sigaction(SIGPIPE, &plan->pipe_action, NULL) == 0 &&
            pthread_sigmask(SIG_SETMASK, &plan->signals, NULL) == 0) {
        (void)execvpe(plan->argv[0], plan->argv, plan->environment);
    }
    reason = errno;
    (void)!write(exec_fd, &reason, sizeof reason);
    _exit(EXIT_CANNOT_RUN);
}

static void close_stream(const struct stream *stream)
{
    (void)close(stream->reader);
    (void)close(stream->writer);
}

tutti_status child_start(const struct child_plan *plan, struct child *child)
{
    pid_t parent = getpid();
    tutti_status status;
    struct stream out;
    struct stream err;
    struct stream exec;
    pid_t pid;

    if (!open_stream(&out, STDOUT_FILENO)) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "make a pipe for the rank's output");
    }
    if (!open_stream(&err, STDERR_FILENO)) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "make a pipe for the rank's errors");
        goto err_out;
    }
    if (!open_pipe(&exec)) {
        status =
                error_set_errno(TUTTI_ERR_SYSTEM, "make a pipe for the result of exec");
        goto err_err;
    }
    pid = fork();
    if (pid == 0) {
        /* The supervisor may have died before the kernel was asked to tell. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            _exit(EXIT_CANNOT_RUN);
        }
        become(plan, out.writer, err.writer, exec.writer);
    }
    if (pid < 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "start the rank's process");
        goto err_exec;
    }
    (void)close(out.writer);
    (void)close(err.writer);
    (void)close(exec.writer);
    (void)fcntl(exec.reader, F_SETFL, O_NONBLOCK);
    *child = (struct child){
        .pid = pid, .exec_fd = exec.reader, .out = out.reader, .err = err.reader
    };
    return TUTTI_OK;

err_exec:
    close_stream(&exec);
err_err:
    close_stream(&err);
err_out:
    close_stream(&out);
    return status;
}

int child_exec_result(struct child *child)
{
    int reason = 0;
    ssize_t len = read(child->exec_fd, &reason, sizeof reason);

    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return -1;
    }
    (void)close(child->exec_fd);
    child->exec_fd = -1;
    return len == (ssize_t)sizeof reason ? reason : 0;
}
