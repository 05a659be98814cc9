#include "launcher/job/console.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    WRITE_MAX = 4096, /* PIPE_BUF: what fits when poll() says that something does */
    SAY_MAX = 4096, /* bytes of a line of our own */
    HOST_WIDTH_MAX = 32
};

#define NS_PER_S INT64_C(1000000000)

/*
 * O_NONBLOCK belongs to the open file, which our shell shares: a terminal or pipe is
 * opened once more for it. A regular file never blocks; what cannot be opened again, a
 * socket, is asked before each write.
 */
static void stream_open(struct console_stream *stream, int fd)
{
    struct stat facts;
    char path[32];

    *stream = (struct console_stream){ .fd = fd };
    if (fstat(fd, &facts) != 0) {
        stream->is_broken = true;
        stream->error = errno;
        return;
    }
    if (S_ISREG(facts.st_mode)) {
        return;
    }
    stream->must_ask = true;
    if (S_ISFIFO(facts.st_mode) || isatty(fd) == 1) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0) {
            *stream = (struct console_stream){ .fd = fd, .is_ours = true };
        }
    }
}

void console_open(struct console *console, const struct options *options, int ranks)
{
    struct timespec now = { .tv_sec = 0 };
    struct timespec monotonic = { .tv_sec = 0 };

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)clock_gettime(CLOCK_MONOTONIC, &monotonic);
    *console = (struct console){
        .has_prefix = options->prefix == JOB_PREFIX_ON ||
                (options->prefix == JOB_PREFIX_AUTO && ranks > 1),
        .timestamps = (enum job_timestamps)options->timestamp_form,
        .rank_width = snprintf(NULL, 0, "%d", ranks - 1),
        .start = (int64_t)monotonic.tv_sec * NS_PER_S + monotonic.tv_nsec,
        .epoch = ((int64_t)now.tv_sec - monotonic.tv_sec) * NS_PER_S + now.tv_nsec -
                monotonic.tv_nsec,
    };
    stream_open(&console->streams[0], STDOUT_FILENO);
    stream_open(&console->streams[1], STDERR_FILENO);
}

static void stream_break(struct console_stream *stream, int error)
{
    stream->is_broken = true;
    stream->error = error;
    wire_writer_reset(&stream->kept);
    stream->written = 0;
}

static bool can_write(const struct console_stream *stream, int timeout_ms)
{
    struct pollfd ask = { .fd = stream->fd, .events = POLLOUT };

    return poll(&ask, 1, timeout_ms) > 0;
}

/* Writes once; false when nothing more can be written now. */
static bool stream_write(struct console_stream *stream)
{
    size_t left = stream->kept.len - stream->written;
    ssize_t done;

    if (left == 0 || (stream->must_ask && !can_write(stream, 0))) {
        return false;
    }
    done = write(stream->fd, stream->kept.data + stream->written,
            stream->must_ask && left > WRITE_MAX ? WRITE_MAX : left);
    if (done < 0 && errno == EINTR) {
        return true;
    }
    if (done < 0) {
        if (errno != EAGAIN) {
            stream_break(stream, errno);
        }
        return false;
    }
    stream->written += (size_t)done;
    if (stream->written == stream->kept.len) {
        wire_writer_reset(&stream->kept);
        stream->written = 0;
    }
    return true;
}

void console_flush(struct console *console)
{
    for (int i = 0; i < 2; i++) {
        while (stream_write(&console->streams[i])) {
        }
    }
}

static void stream_close(struct console_stream *stream)
{
    while (stream->kept.len > 0 && !stream->is_broken) {
        if (!stream_write(stream)) {
            (void)can_write(stream, -1);
        }
    }
    if (stream->is_ours) {
        (void)close(stream->fd);
    }
    wire_writer_fini(&stream->kept);
}

void console_close(struct console *console)
{
    stream_close(&console->streams[0]);
    stream_close(&console->streams[1]);
}

/* Moves what waits to the front, so that the memory is used again. */
static void stream_tidy(struct console_stream *stream)
{
    if (stream->written > 0) {
        stream->kept.len -= stream->written;
        memmove(stream->kept.data, stream->kept.data + stream->written,
                stream->kept.len);
        stream->written = 0;
    }
}

static void stream_put(struct console_stream *stream, const char *mark, size_t mark_len,
        const char *line, size_t len)
{
    if (stream->is_broken) {
        return;
    }
    if (stream->kept.len - stream->written + mark_len + len > CONSOLE_MAX) {
        stream->dropped++;
        return;
    }
    wire_put_bytes(&stream->kept, mark, mark_len);
    wire_put_bytes(&stream->kept, line, len);
    if (stream->kept.failed) {
        stream->kept.failed = false;
        stream->dropped++;
    }
}

static size_t put_time(const struct console *console, int64_t time, char *text)
{
    int64_t since = time - console->start;
    struct tm day;
    time_t seconds;

    switch (console->timestamps) {
    case JOB_TIMESTAMPS_OFF:
        return 0;
    case JOB_TIMESTAMPS_SECONDS:
        since = since < 0 ? 0 : since;
        return (size_t)snprintf(text, CONSOLE_MARK_MAX, "%5" PRId64 ".%03d ",
                since / NS_PER_S, (int)(since % NS_PER_S / 1000000));
    case JOB_TIMESTAMPS_ISO:
        break;
    }
    time += console->epoch;
    seconds = (time_t)(time / NS_PER_S);
    if (gmtime_r(&seconds, &day) == NULL) {
        return 0;
    }
    return (size_t)snprintf(text, CONSOLE_MARK_MAX,
            "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ ", day.tm_year + 1900, day.tm_mon + 1,
            day.tm_mday, day.tm_hour, day.tm_min, day.tm_sec,
            (int)(time % NS_PER_S / 1000000));
}

size_t console_mark(const struct console *console, const struct console_origin *origin,
        char text[CONSOLE_MARK_MAX])
{
    size_t len = put_time(console, origin->time, text);
    size_t left = CONSOLE_MARK_MAX - len;

    text[len] = '\0';
    if (!console->has_prefix) {
        return len;
    }
    if (!console->has_hosts) {
        len += (size_t)snprintf(
                text + len, left, "[%*d] ", console->rank_width, origin->rank);
    } else {
        int host = (int)strlen(origin->host);
        int pad = host < console->host_width ? console->host_width - host : 0;

        len += (size_t)snprintf(text + len, left, "[%*d@%.*s]%*s ", console->rank_width,
                origin->rank, 255, origin->host, pad, "");
    }
    return len < CONSOLE_MARK_MAX ? len : CONSOLE_MARK_MAX - 1;
}

bool console_takes_bytes(const struct console *console, int stream)
{
    return !console->has_prefix && console->timestamps == JOB_TIMESTAMPS_OFF &&
            isatty(console->streams[stream].fd) == 0;
}

void console_lines(struct console *console, int stream,
        const struct console_origin *origin, const char *lines, size_t len)
{
    struct console_stream *to = &console->streams[stream == 2 ? 1 : 0];
    char mark[CONSOLE_MARK_MAX];
    int width = (int)strlen(origin->host);
    size_t mark_len;

    if (width > console->host_width) {
        console->host_width = width > HOST_WIDTH_MAX ? HOST_WIDTH_MAX : width;
    }
    mark_len = console_mark(console, origin, mark);
    stream_tidy(to);
    while (len > 0) {
        const char *end = memchr(lines, '\n', len);
        size_t line = end == NULL ? len : (size_t)(end - lines) + 1;

        stream_put(to, mark, mark_len, lines, line);
        lines += line;
        len -= line;
    }
    console_flush(console);
}

void console_print(struct console *console, const char *who, const char *format, ...)
{
    char line[SAY_MAX];
    char mark[CONSOLE_MARK_MAX];
    va_list list;
    int len;

    va_start(list, format);
    len = vsnprintf(line, sizeof line - 1, format, list);
    va_end(list);
    if (len < 0) {
        return;
    }
    if (len > (int)sizeof line - 2) {
        len = (int)sizeof line - 2;
    }
    line[len] = '\n';
    (void)snprintf(mark, sizeof mark, "%s: ", who);
    stream_tidy(&console->streams[1]);
    stream_put(&console->streams[1], mark, strlen(mark), line, (size_t)len + 1);
    console_flush(console);
}

void console_draw(struct console *console, const char *text)
{
    stream_put(&console->streams[1], "", 0, text, strlen(text));
    console_flush(console);
}

bool console_waits(const struct console *console, int stream)
{
    return console->streams[stream].kept.len > 0 && !console->streams[stream].is_broken;
}

bool console_is_full(const struct console *console)
{
    for (int i = 0; i < 2; i++) {
        if (console->streams[i].kept.len - console->streams[i].written > CONSOLE_FULL) {
            return true;
        }
    }
    return false;
}

int console_error(const struct console *console)
{
    return console->streams[0].error;
}
