/*
 * Errors of the trainer's layer.
 */
#ifndef TUTTI_TRAINER_ERROR_H
#define TUTTI_TRAINER_ERROR_H

#include <errno.h>
#include <string.h>

#include <tutti/tutti.h>

/*
 * error_set(status, format, ...) stores the message and is that status. A macro, so that static
 * analysis sees that the value is the status given, and so an error.
 */
#define error_set(status, ...) \
    ((void)tutti_set_last_error((status), __VA_ARGS__), (status))

/** TUTTI_ERR_SYSTEM with what could not be done, the path and errno in words. */
static inline tutti_status error_system(const char *what, const char *path)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's texts are constants */
    return error_set(TUTTI_ERR_SYSTEM, "cannot %s %s: %s", what, path, strerror(errno));
}

#endif
