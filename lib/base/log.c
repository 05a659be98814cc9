/*
 * Log lines: formatted on the caller's stack and handed over whole, so that lines of
 * several threads never mix.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    LOG_LINE_MAX = 4096
};

static const char *log_level_name(tutti_log_level level)
{
    switch (level) {
    case TUTTI_LOG_ERROR:
        return "error";
    case TUTTI_LOG_WARN:
        return "warn";
    case TUTTI_LOG_INFO:
        return "info";
    case TUTTI_LOG_DEBUG:
        return "debug";
    case TUTTI_LOG_TRACE:
        return "trace";
    }
    return "?";
}

/* stderr is unbuffered: one fprintf is one write, whole even between processes. */
static void log_to_stderr(
        const struct log *log, tutti_log_level level, const char *line)
{
    const char *name = log_level_name(level);

    if (log->rank < 0) {
        (void)fprintf(stderr, "tutti[?] %s: %s\n", name, line);
    } else {
        (void)fprintf(stderr, "tutti[%d] %s: %s\n", log->rank, name, line);
    }
}

void log_write(const struct log *log, tutti_log_level level, const char *format, ...)
{
    char line[LOG_LINE_MAX];
    int saved_errno = errno;
    va_list args;

    if (!log_enabled(log, level)) {
        return;
    }
    va_start(args, format);
    if (vsnprintf(line, sizeof line, format, args) < 0) {
        line[0] = '\0';
    }
    va_end(args);
    if (log->callback != NULL) {
        log->callback(log->user, level, log->rank, line);
    } else {
        log_to_stderr(log, level, line);
    }
    errno = saved_errno;
}
