/*
 * Errors: the thread-local text behind tutti_last_error(), and the record that carries
 * a failure from the thread or rank that found it to the thread that reads it.
 */
#ifndef TUTTI_BASE_ERROR_H
#define TUTTI_BASE_ERROR_H

#include <stdarg.h>

#include <tutti/tutti.h>

#include "base/shared.h"

/** Longest error text in bytes, with the terminating zero. */
#define ERROR_TEXT_MAX 1024

/** A failure as data: stored in a work or context, and sent between ranks. */
struct error {
    tutti_status status; /* TUTTI_OK: no error */
    int rank; /* world rank that found the cause; -1: unknown */
    char text[ERROR_TEXT_MAX]; /* in words, "" when there is no error */
};

/** Sets the calling thread's last error. Never fails. */
void error_note(const char *format, ...) TUTTI_SHARED(error_note)
        __attribute__((format(printf, 1, 2)));

/** As error_note(), for functions that have such arguments themselves. */
void error_note_list(const char *format, va_list args) TUTTI_SHARED(error_note_list)
        __attribute__((format(printf, 1, 0)));

/** As error_note(), with ": " and the text of errno appended. */
void error_note_errno(const char *format, ...) TUTTI_SHARED(error_note_errno)
        __attribute__((format(printf, 1, 2)));

/*
 * error_set(status, format, ...) notes an error and is that status. Macros, so that static
 * analysis sees that the value is the status given, and so an error.
 */
#define error_set(status, ...) (error_note(__VA_ARGS__), (status))
#define error_set_errno(status, ...) (error_note_errno(__VA_ARGS__), (status))

/** What tutti_last_error() returns: this thread's last error, "" when there was none. */
const char *error_last(void) TUTTI_SHARED(error_last);

/** Fills a record. Never fails; long texts are cut. */
void error_fill(struct error *error, tutti_status status, int rank, const char *format,
        ...) TUTTI_SHARED(error_fill) __attribute__((format(printf, 4, 5)));

/** A copy, freed with mem_free(); NULL when out of memory: then the status has to do. */
struct error *error_copy(const struct error *from) TUTTI_SHARED(error_copy);

/** Makes a record the calling thread's last error and returns its status. */
tutti_status error_raise(const struct error *error) TUTTI_SHARED(error_raise);

#endif
