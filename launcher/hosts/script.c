/*
 * Runs a program that prints hosts. It has a process group of its own, so that what it
 * started ends with it when it takes too long.
 */
#include "launcher/hosts/script.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/environment.h"
#include "launcher/program.h"

enum {
    DEFAULT_MS = 60000,
    OUTPUT_LIMIT = HOSTS_LIMIT * HOST_NAME_LIMIT,
    COMPLAINT_LIMIT = 4096, /* bytes of its stderr that are kept  */
    SHOWN_LIMIT = 500 /* bytes of them that are shown       */
};

/* One of its two streams. */
struct stream {
    int fd; /* our end of the pipe; -1: ended            */
    char *text; /* owned, with a zero behind it              */
    size_t len;
    size_t capacity;
    size_t limit; /* what is more is not kept                  */
};

struct script {
    char *file;
    pid_t pid;
    int limit_ms;
    int64_t deadline_ms; /* of the monotonic clock */
    struct stream output;
    struct stream errors;
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads what is there; false when out of memory. */
static bool drain(struct stream *stream)
{
    char bytes[4096];
    ssize_t got = read(stream->fd, bytes, sizeof bytes);
    size_t keep;

    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    if (got <= 0) {
        (void)close(stream->fd);
        stream->fd = -1;
        return true;
    }
    keep = size_min((size_t)got, stream->limit - stream->len);
    if (!mem_grow(&stream->text, &stream->capacity, stream->len + keep + 1, 1)) {
        return false;
    }
    memcpy(stream->text + stream->len, bytes, keep);
    stream->len += keep;
    stream->text[stream->len] = '\0';
    return true;
}

static tutti_status refuse_late(const struct script *script)
{
    return error_set(TUTTI_ERR_INVALID, "%s has not ended within %g s, and was killed",
            script->file, script->limit_ms / 1000.0);
}

/* Waits until one of the streams has something, and reads that. */
static tutti_status read_some(struct script *script, int64_t wait_ms)
{
    struct stream *streams[] = { &script->output, &script->errors };
    struct pollfd polls[] = {
        { .fd = script->output.fd, .events = POLLIN },
        { .fd = script->errors.fd, .events = POLLIN },
    };

    if (poll(polls, 2, (int)wait_ms) < 0 && errno != EINTR) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "wait for %s", script->file);
    }
    for (int i = 0; i < 2; i++) {
        if (polls[i].fd >= 0 && polls[i].revents != 0 && !drain(streams[i])) {
            return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %s", script->file);
        }
    }
    return TUTTI_OK;
}

/* Reads both streams to their ends. */
static tutti_status read_streams(struct script *script)
{
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && (script->output.fd >= 0 || script->errors.fd >= 0)) {
        int64_t left = script->deadline_ms - now_ms();

        status = left > 0 ? read_some(script, left) : refuse_late(script);
    }
    return status;
}

/* Starts it with the write ends of the pipes; its input is empty. */
static tutti_status spawn(
        struct script *script, char *const *environment, int output, int errors)
{
    char *const argv[] = { script->file, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, output, 1);
    (void)posix_spawn_file_actions_adddup2(&actions, errors, 2);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    error = posix_spawn(
            &script->pid, script->file, &actions, &attributes, argv, environment);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    errno = error;
    return error == 0
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", script->file);
}

static tutti_status start(struct script *script, char *const *environment)
{
    int output[2];
    int errors[2];
    tutti_status status;

    if (pipe2(output, O_CLOEXEC) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "a pipe for %s", script->file);
    }
    if (pipe2(errors, O_CLOEXEC) != 0) {
        (void)close(output[0]);
        (void)close(output[1]);
        return error_set_errno(TUTTI_ERR_SYSTEM, "a pipe for %s", script->file);
    }
    status = spawn(script, environment, output[1], errors[1]);
    (void)close(output[1]);
    (void)close(errors[1]);
    script->output.fd = output[0];
    script->errors.fd = errors[0];
    return status;
}

/* Its exit status in words, with what it said. */
static tutti_status check_end(const struct script *script, int end)
{
    const char *said = script->errors.len > 0 ? script->errors.text : "nothing";
    size_t len = strlen(said);

    if (WIFEXITED(end) && WEXITSTATUS(end) == 0) {
        return TUTTI_OK;
    }
    while (len > 0 && said[len - 1] == '\n') {
        len--;
    }
    return error_set(TUTTI_ERR_INVALID, "%s %s %d; it said on stderr: %.*s",
            script->file, WIFEXITED(end) ? "ended with status" : "was ended by signal",
            WIFEXITED(end) ? WEXITSTATUS(end) : WTERMSIG(end),
            (int)size_min(len, SHOWN_LIMIT), said);
}

/* Waits for its end, but leaves it to be reaped; false when it takes too long. */
static bool wait_for_end(const struct script *script)
{
    static const struct timespec nap = { .tv_nsec = 2000000 };

    for (;;) {
        siginfo_t info = { .si_pid = 0 };

        if (waitid(P_PID, (id_t)script->pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
                info.si_pid != 0) {
            return true;
        }
        if (now_ms() >= script->deadline_ms) {
            return false;
        }
        (void)nanosleep(&nap, NULL);
    }
}

/*
 * Its end. Whoever it left behind is killed, before it is reaped: until then the group's
 * number is not given to others.
 */
static tutti_status finish(struct script *script, tutti_status status)
{
    int end = 0;
    pid_t pid;

    if (status == TUTTI_OK && !wait_for_end(script)) {
        status = refuse_late(script);
    }
    (void)kill(-script->pid, SIGKILL);
    do {
        pid = waitpid(script->pid, &end, 0);
    } while (pid < 0 && errno == EINTR);
    return status != TUTTI_OK ? status : check_end(script, end);
}

static tutti_status parse(const struct script *script, struct host_list *hosts)
{
    FILE *file;
    tutti_status status;

    if (script->output.len == 0) {
        return error_set(TUTTI_ERR_INVALID, "%s names no host", script->file);
    }
    if (script->output.len == script->output.limit) {
        return error_set(TUTTI_ERR_INVALID, "%s prints too much", script->file);
    }
    file = fmemopen(script->output.text, script->output.len, "r");
    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read from %s", script->file);
    }
    status = host_list_read_stream(hosts, file, script->file);
    (void)fclose(file);
    return status;
}

static void close_stream(struct stream *stream)
{
    if (stream->fd >= 0) {
        (void)close(stream->fd);
    }
    mem_free(stream->text);
}

tutti_status script_hosts(
        const struct source_facts *facts, const char *file, struct host_list *hosts)
{
    int limit_ms = facts->script_ms > 0 ? facts->script_ms : DEFAULT_MS;
    char path[PATH_MAX];
    struct script script = {
        .file = path,
        .limit_ms = limit_ms,
        .deadline_ms = now_ms() + limit_ms,
        .output = { .fd = -1, .limit = OUTPUT_LIMIT },
        .errors = { .fd = -1, .limit = COMPLAINT_LIMIT },
    };
    tutti_status status = program_find(
            file, environment_get(facts->environment, "PATH"), path, sizeof path);

    if (status != TUTTI_OK) {
        return status;
    }
    status = start(&script, facts->environment);
    if (status == TUTTI_OK) {
        status = finish(&script, read_streams(&script));
    }
    if (status == TUTTI_OK) {
        status = parse(&script, hosts);
    }
    close_stream(&script.output);
    close_stream(&script.errors);
    return status;
}
