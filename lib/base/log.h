/*
 * Log lines of one context, to its callback or to stderr.
 */
#ifndef TUTTI_BASE_LOG_H
#define TUTTI_BASE_LOG_H

#include <tutti/tutti.h>

/** Where a context's lines go; a plain value, fixed before threads start. */
struct log {
    tutti_log_callback callback; /* NULL: stderr, "tutti[rank] level: line" */
    void *user; /* for the callback */
    tutti_log_level level; /* lines above it are dropped */
    int rank; /* -1 until it is known */
};

/** True when lines of this level are kept: guards costly arguments. */
static inline bool log_enabled(const struct log *log, tutti_log_level level)
{
    return level <= log->level;
}

/** Writes one line (no newline in format). Any thread. Cut at 4096 bytes. */
void log_write(const struct log *log, tutti_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

#define log_error(log, ...) log_write((log), TUTTI_LOG_ERROR, __VA_ARGS__)
#define log_warn(log, ...) log_write((log), TUTTI_LOG_WARN, __VA_ARGS__)
#define log_info(log, ...) log_write((log), TUTTI_LOG_INFO, __VA_ARGS__)
#define log_debug(log, ...) log_write((log), TUTTI_LOG_DEBUG, __VA_ARGS__)
#define log_trace(log, ...) log_write((log), TUTTI_LOG_TRACE, __VA_ARGS__)

#endif
