/*
 * Errors: formatting into the thread's last error and into records.
 */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Per thread, so that callers on different threads never see each other's text. */
static _Thread_local char last_error[ERROR_TEXT_MAX];

/* Names and words of files may hold what a terminal obeys: escapes, also those of two bytes. */
static void make_printable(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
        if ((*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f) {
            *at = '?';
        } else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f) {
            *at++ = '?';
            *at = '?';
        }
    }
}

/* Through a copy: the arguments may point into the last error itself. */
__attribute__((format(printf, 1, 0))) static void last_error_format(
        const char *format, va_list args, const char *suffix)
{
    char text[ERROR_TEXT_MAX];
    size_t len;

    if (vsnprintf(text, sizeof text, format, args) < 0) {
        text[0] = '\0';
    }
    if (suffix != NULL) {
        len = strlen(text);
        (void)snprintf(text + len, sizeof text - len, ": %s", suffix);
    }
    make_printable(text);
    memcpy(last_error, text, sizeof last_error);
}

void error_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    last_error_format(format, args, NULL);
    va_end(args);
}

void error_note_list(const char *format, va_list args)
{
    last_error_format(format, args, NULL);
}

void error_note_errno(const char *format, ...)
{
    char buffer[128];
    const char *reason = strerror_r(errno, buffer, sizeof buffer);
    va_list args;

    va_start(args, format);
    last_error_format(format, args, reason);
    va_end(args);
}

void error_fill(
        struct error *error, tutti_status status, int rank, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0) {
        text[0] = '\0';
    }
    va_end(args);
    make_printable(text);
    error->status = status;
    error->rank = rank;
    (void)snprintf(error->text, sizeof error->text, "%s", text);
}

struct error *error_copy(const struct error *from)
{
    struct error *copy = mem_alloc(sizeof *copy);

    if (copy != NULL) {
        *copy = *from;
    }
    return copy;
}

tutti_status error_raise(const struct error *error)
{
    return error_set(error->status, "%s", error->text);
}

const char *error_last(void)
{
    return last_error;
}
