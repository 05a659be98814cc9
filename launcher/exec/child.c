#include "launcher/exec/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/exit_status.h"
#include "launcher/session/loop.h"
#include "launcher/signals.h"

enum {
    NAME_BYTES = 64
};

/* By the number of the descriptor in the child; it says through the first how exec went. */
enum {
    EXEC,
    OUT = STDOUT_FILENO,
    ERR = STDERR_FILENO,
    STREAMS
};

struct stream {
    int reader, writer; /* -1: not open */
};

/*
 * A terminal where the MPI launcher gave one, so that the program goes on writing line by line
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

static bool open_stream(struct stream *stream, bool is_terminal)
{
    if (!(is_terminal && open_terminal(stream)) && !open_pipe(stream)) {
        return false;
    }
    (void)fcntl(stream->reader, F_SETFL, O_NONBLOCK);
    return true;
}

static _Noreturn void become(
        const struct child_plan *plan, pid_t parent, const struct stream *streams)
{
    const int out = plan->output >= 0 ? plan->output : streams[OUT].writer;
    const int err = plan->output >= 0 ? plan->output : streams[ERR].writer;
    int reason;

    if (plan->is_group) {
        (void)setpgid(0, 0);
    }
    /* The parent may have died before the kernel was asked to tell. */
    if (plan->death_signal != 0 &&
            (prctl(PR_SET_PDEATHSIG, plan->death_signal) != 0 || getppid() != parent)) {
        _exit(EXIT_CANNOT_RUN);
    }
    if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0 &&
            (plan->input < 0 || dup2(plan->input, STDIN_FILENO) >= 0)) {
        signals_restore();
        (void)execvpe(plan->program != NULL ? plan->program : plan->argv[0], plan->argv,
                plan->environment);
    }
    reason = errno;
    (void)!write(streams[EXEC].writer, &reason, sizeof reason);
    _exit(EXIT_CANNOT_RUN);
}

static bool open_streams(const struct child_plan *plan, struct stream streams[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) {
        const bool is_terminal = i != EXEC && plan->takes_terminals && isatty(i) == 1;

        if ((i == EXEC || plan->output < 0) && !open_stream(&streams[i], is_terminal)) {
            return false;
        }
    }
    return true;
}

tutti_status child_start(const struct child_plan *plan, struct child *child)
{
    const pid_t parent = getpid();
    struct stream streams[STREAMS] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    tutti_status status = TUTTI_OK;
    pid_t pid = -1;

    if (open_streams(plan, streams)) {
        pid = fork();
    }
    if (pid == 0) {
        become(plan, parent, streams);
    }
    if (pid < 0) {
        status = error_set_errno(
                TUTTI_ERR_SYSTEM, "start a process for %s", plan->argv[0]);
    } else {
        if (plan->is_group) {
            (void)setpgid(pid, pid);
        }
        *child = (struct child){
            .pid = pid,
            .exec_fd = streams[EXEC].reader,
            .out = streams[OUT].reader,
            .err = streams[ERR].reader,
        };
    }
    for (int i = 0; i < STREAMS; i++) {
        fd_close(&streams[i].writer);
        if (pid < 0) {
            fd_close(&streams[i].reader);
        }
    }
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

tutti_status child_wait_exec(struct child *child, const char *name)
{
    struct pollfd polled = { .fd = child->exec_fd, .events = POLLIN };
    int result;

    do {
        (void)poll(&polled, 1, -1);
        result = child_exec_result(child);
    } while (result < 0);
    errno = result;
    return result == 0 ? TUTTI_OK
                       : error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", name);
}
