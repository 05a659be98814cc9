/*
 * A stream of bytes as lines for a console, how many bytes of them per second are shown, and the last of
 * them. Pure.
 *
 * What a carriage return ends is an update of the same line (a progress bar): of updates
 * that follow each other quickly only the latest is shown. Lines are never cut inside of
 * a UTF-8 character, a zero byte is shown as \0, and a last line gets its newline.
 */
#ifndef TUTTI_LAUNCHER_EXEC_LINES_H
#define TUTTI_LAUNCHER_EXEC_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/session/link.h"

/** A bucket that holds one second's worth. */
struct rate {
    uint64_t per_second; /* bytes; 0: no limit                              */
    int64_t credit; /* bytes that may pass now; below 0 after a long line */
    int64_t filled; /* when credit was last added, ns                  */
    int64_t dropping; /* when the first of dropped was dropped, ns       */
    uint64_t dropped; /* lines since rate_take_dropped()                         */
};

void rate_init(struct rate *rate, uint64_t per_second, int64_t now);
/** True: the line may be shown. False: it was counted. */
bool rate_take(struct rate *rate, size_t bytes, int64_t now);
/** When what was dropped should be told; INT64_MAX: nothing was. */
int64_t rate_due(const struct rate *rate);
/** Lines dropped since the last call. */
uint64_t rate_take_dropped(struct rate *rate);

enum {
    LINES_SHOWN_MAX = 1 << 16, /* bytes of a line with its newline                  */
    LINES_MAX =
            LINES_SHOWN_MAX - 16 /* of a longer one only these are shown, and a mark */
};

/** Nanoseconds between two updates of a line that are shown. */
#define LINES_UPDATE_NS ((int64_t)150000000)

/** Takes a line with its newline. */
typedef void lines_sink(void *to, const char *line, size_t len);

/** A stream that is being split. Zeroed is valid input for lines_fini(). */
struct lines {
    lines_sink *sink;
    void *to; /* given to sink                                           */
    char *line; /* what came since the last end of a line; owned           */
    size_t len; /* bytes of it                                             */
    char *update; /* the latest update that was not shown; owned             */
    size_t update_len; /* bytes of it; 0: none                                    */
    int64_t shown; /* when an update was shown last                           */
    bool after_return; /* the last byte was '\r'; whether '\n' follows is not known */
    bool is_cut; /* the line was too long: the rest of it is skipped        */
    bool is_shown; /* an update was shown, and nothing came after it          */
};

/** @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status lines_init(struct lines *lines, lines_sink *sink, void *to);
void lines_fini(struct lines *lines);

/** Takes bytes; `now` is monotonic. */
void lines_feed(struct lines *lines, const char *bytes, size_t len, int64_t now);
/** Shows an update whose time has come. */
void lines_tick(struct lines *lines, int64_t now);
/** When lines_tick() has something to do; INT64_MAX: never. */
int64_t lines_due(const struct lines *lines);
/** Shows what is left; the next bytes begin a line. */
void lines_end(struct lines *lines);

/** Zeroed is valid and empty. */
struct tail {
    char text[LINK_TAIL_MAX]; /* whole lines, but the first may lack its start */
    size_t len; /* bytes                                         */
    size_t count; /* lines, at most LINK_TAIL_LINES                */
};

/** Adds a line with its newline; the oldest ones go. */
void tail_add(struct tail *tail, const char *line, size_t len);

#endif
