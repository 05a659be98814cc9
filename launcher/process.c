#include "launcher/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/exec/child.h"
#include "launcher/signals.h"

enum {
    CHUNK = 4096 /* bytes read at once */
};

static tutti_status start(
        struct process *process, char *const *argv, char *const *environment)
{
    struct child_plan plan = { .argv = argv,
        .environment = environment,
        .output = -1,
        .is_group = process->is_group };
    struct child child;
    tutti_status status;
    int in[2];

    if (pipe2(in, O_CLOEXEC) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s: pipe", argv[0]);
    }
    plan.input = in[0];
    status = child_start(&plan, &child);
    (void)close(in[0]);
    if (status != TUTTI_OK) {
        goto err_in;
    }
    status = child_wait_exec(&child, argv[0]);
    if (status != TUTTI_OK) {
        goto err_child;
    }
    process->pid = child.pid;
    process->in = in[1];
    process->out.fd = child.out;
    process->err.fd = child.err;
    process->end = (int)syscall(SYS_pidfd_open, process->pid, 0);
    return TUTTI_OK;

err_child:
    (void)waitpid(child.pid, NULL, 0);
    (void)close(child.out);
    (void)close(child.err);
err_in:
    (void)close(in[1]);
    return status;
}

tutti_status process_start(
        struct process *process, char *const *argv, char *const *environment)
{
    *process = (struct process){ .pid = 0 };
    return start(process, argv, environment);
}

tutti_status process_start_group(
        struct process *process, char *const *argv, char *const *environment)
{
    *process = (struct process){ .is_group = true };
    return start(process, argv, environment);
}

static bool is_alive(const struct process *process)
{
    return process->pid > 0 && !process->has_ended;
}

/* What it writes, and its end; at their ends they are not watched any more. */
static void watch(struct process *process, unsigned events)
{
    const int fds[] = { process->out.fd, process->err.fd, process->end };

    for (size_t i = 0; i < 3; i++) {
        (void)loop_set(process->loop, &process->watches[i], fds[i], events);
    }
}

/* Takes all that is there; what is beyond the limit is dropped. */
static void drain(struct process *process, struct process_stream *stream)
{
    while (stream->fd >= 0) {
        char chunk[CHUNK];
        ssize_t got = read(stream->fd, chunk, sizeof chunk);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got <= 0) {
            loop_close(process->loop,
                    &process->watches[stream == &process->out ? 0 : 1], &stream->fd);
            return;
        }
        if (stream->len + (size_t)got <= PROCESS_OUTPUT_MAX &&
                mem_grow(&stream->text, &stream->capacity, stream->len + (size_t)got,
                        1)) {
            memcpy(stream->text + stream->len, chunk, (size_t)got);
            stream->len += (size_t)got;
        } else {
            stream->is_cut = true;
        }
    }
}

/* The process, and its group when it has one. */
static void kill_all(const struct process *process)
{
    (void)kill(process->is_group ? -process->pid : process->pid, SIGKILL);
}

static void reap(struct process *process, int flags)
{
    siginfo_t end = { .si_pid = 0 };
    int status = 0;

    if (!is_alive(process) ||
            waitid(P_PID, (id_t)process->pid, &end, WEXITED | WNOWAIT | flags) != 0 ||
            end.si_pid == 0) {
        return;
    }
    /* As long as it was not waited for, the group's number is not given to others. */
    if (process->is_group) {
        kill_all(process);
    }
    (void)waitpid(process->pid, &status, 0);
    process->has_ended = true;
    process->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    process->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    /* The order matters: what it wrote before its end is in the pipes by now. */
    drain(process, &process->out);
    drain(process, &process->err);
    watch(process, 0); /* others may hold its pipes */
}

static void hear(void *context, unsigned ready)
{
    struct process *process = context;

    (void)ready;
    drain(process, &process->out);
    drain(process, &process->err);
    reap(process, WNOHANG);
}

void process_watch(struct process *process, struct loop *loop)
{
    process->loop = loop;
    for (size_t i = 0; i < 3; i++) {
        process->watches[i] = (struct loop_watch){ .call = hear, .context = process };
    }
    watch(process, EPOLLIN);
}

void process_write(struct process *process, const char *text, size_t len)
{
    while (len > 0 && process->in >= 0) {
        ssize_t put = write(process->in, text, len);

        if (put < 0 && errno != EINTR) {
            return;
        }
        if (put > 0) {
            text += put;
            len -= (size_t)put;
        }
    }
}

void process_close_input(struct process *process)
{
    if (process->pid > 0 && process->in >= 0) {
        (void)close(process->in);
        process->in = -1;
    }
}

bool process_take_line(struct process *process, char *line, size_t capacity)
{
    struct process_stream *out = &process->out;
    const char *newline = out->len == 0 ? NULL : memchr(out->text, '\n', out->len);
    size_t len = newline != NULL ? (size_t)(newline - out->text) : out->len;
    size_t used = newline != NULL ? len + 1 : len;

    if (out->len == 0 || (newline == NULL && !process->has_ended)) {
        return false;
    }
    (void)snprintf(line, capacity, "%.*s", (int)len, out->text);
    line[strcspn(line, "\r")] = '\0';
    out->len -= used;
    memmove(out->text, out->text + used, out->len);
    return true;
}

void process_last_words(const struct process *process, char *text, size_t capacity)
{
    const struct process_stream *err = &process->err;
    size_t end = err->len;
    size_t start;

    while (end > 0 && strchr("\r\n\t ", err->text[end - 1]) != NULL) {
        end--;
    }
    start = end;
    while (start > 0 && err->text[start - 1] != '\n') {
        start--;
    }
    text[0] = '\0';
    if (end > start) {
        (void)snprintf(text, capacity, "%.*s", (int)(end - start), err->text + start);
    }
}

bool process_finish(struct process *process, int64_t until_ns)
{
    struct loop_watch asked = { .call = hear, .context = process };
    struct loop loop;
    int signals;

    process_close_input(process);
    if (process->has_ended) {
        return true;
    }
    signals = signals_open_held();
    if (loop_init(&loop) == TUTTI_OK) {
        process_watch(process, &loop);
        (void)loop_set(&loop, &asked, signals, EPOLLIN);
        while (!process->has_ended && asked.ready == 0 && clock_ns() < until_ns) {
            (void)loop_turn(&loop, until_ns);
        }
        process->loop = NULL;
    }
    loop_close(&loop, &asked, &signals);
    loop_fini(&loop);
    if (!process->has_ended) {
        kill_all(process);
        reap(process, 0);
        return false;
    }
    return true;
}

tutti_status process_run(struct process *process, char *const *argv,
        char *const *environment, int64_t until_ns)
{
    sigset_t before;
    tutti_status status;

    signals_hold(&before);
    status = process_start(process, argv, environment);
    if (status == TUTTI_OK) {
        (void)process_finish(process, until_ns);
    }
    signals_let(&before);
    return status;
}

void process_fini(struct process *process)
{
    if (process->pid == 0) {
        return;
    }
    process_close_input(process);
    if (!process->has_ended) {
        kill_all(process);
        reap(process, 0);
    }
    loop_close(process->loop, &process->watches[0], &process->out.fd);
    loop_close(process->loop, &process->watches[1], &process->err.fd);
    loop_close(process->loop, &process->watches[2], &process->end);
    mem_free(process->out.text);
    mem_free(process->err.text);
    *process = (struct process){ .pid = 0 };
}
