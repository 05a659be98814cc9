/*
 * What the engine itself prints: cut into lines, the last of which are kept. Pure.
 */
#ifndef TUTTI_LAUNCHER_JOB_SAID_H
#define TUTTI_LAUNCHER_JOB_SAID_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SAID_LINES = 100, /* that are kept            */
    SAID_LINE_MAX = 1024 /* bytes of one with its zero */
};

/** Zeroed is valid and empty. */
struct said {
    char lines[SAID_LINES][SAID_LINE_MAX]; /* a ring                            */
    size_t count; /* lines ever kept: the last is at (count - 1) % SAID_LINES */
    char partial[SAID_LINE_MAX]; /* of a line without its newline               */
    size_t partial_len;
};

/** Is called with each line that is complete, without its newline. */
typedef void (*said_show)(void *context, const char *line);

/** Takes bytes; long lines are cut, empty ones and control characters left out. */
void said_add(struct said *said, const char *bytes, size_t len, said_show show,
        void *context);
/** The end of the bytes: a last line without a newline is one. */
void said_end(struct said *said, said_show show, void *context);
/** How many lines are kept, and the i-th of them, oldest first. */
size_t said_kept(const struct said *said);
const char *said_line(const struct said *said, size_t i);

#endif
