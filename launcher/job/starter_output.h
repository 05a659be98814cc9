/*
 * What the MPI launcher itself prints: cut into lines, the last of which are kept. Pure.
 */
#ifndef TUTTI_LAUNCHER_JOB_STARTER_OUTPUT_H
#define TUTTI_LAUNCHER_JOB_STARTER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

enum {
    STARTER_OUTPUT_LINES = 100, /* that are kept            */
    STARTER_OUTPUT_LINE_MAX = 1024 /* bytes of one with its zero */
};

/** Zeroed is valid and empty. */
struct starter_output {
    char lines[STARTER_OUTPUT_LINES]
              [STARTER_OUTPUT_LINE_MAX]; /* a ring                            */
    size_t count; /* lines ever kept: the last is at (count - 1) % STARTER_OUTPUT_LINES */
    char partial
            [STARTER_OUTPUT_LINE_MAX]; /* of a line without its newline               */
    size_t partial_len;
};

/** Is called with each line that is complete, without its newline. */
typedef void (*starter_output_show)(void *context, const char *line);

/** Takes bytes; long lines are cut, empty ones and control characters left out. */
void starter_output_add(struct starter_output *output, const char *bytes, size_t len,
        starter_output_show show, void *context);
/** The end of the bytes: a last line without a newline is one. */
void starter_output_end(
        struct starter_output *output, starter_output_show show, void *context);
/** How many lines are kept, and the i-th of them, oldest first. */
size_t starter_output_kept(const struct starter_output *output);
const char *starter_output_line(const struct starter_output *output, size_t i);

#endif
