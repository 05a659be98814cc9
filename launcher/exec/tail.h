/*
 * The last lines of a stream, for the report of a failure.
 */
#ifndef TUTTI_LAUNCHER_EXEC_TAIL_H
#define TUTTI_LAUNCHER_EXEC_TAIL_H

#include <stddef.h>

#include "launcher/session/link.h"

/** Zeroed is valid and empty. */
struct tail {
    char text[LINK_TAIL_MAX]; /* whole lines, but the first may lack its start */
    size_t len; /* bytes                                         */
    size_t count; /* lines, at most LINK_TAIL_LINES                */
};

/** Adds a line with its newline; the oldest ones go. */
void tail_add(struct tail *tail, const char *line, size_t len);

#endif
