/*
 * The console: lines of the ranks, marked and written whole to stdout and stderr.
 *
 * A terminal may be slow or stopped (Ctrl-S) and must not keep tuttirun from hearing
 * heartbeats, so nothing here waits: what cannot be written is kept. When much is kept,
 * console_is_full() says so and links that bring output are not read on.
 */
#ifndef TUTTI_LAUNCHER_JOB_CONSOLE_H
#define TUTTI_LAUNCHER_JOB_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/options.h"

enum {
    CONSOLE_FULL = 1 << 20, /* bytes kept of a stream: no more is taken from ranks  */
    CONSOLE_MAX = 1 << 24, /* bytes kept of a stream at most; more is dropped      */
    CONSOLE_MARK_MAX = 384 /* bytes of what is put before a line, with its zero    */
};

/** One of our streams. */
struct console_stream {
    int fd; /* non-blocking where that is possible                  */
    bool is_ours; /* fd was opened by us, and is closed                   */
    bool must_ask; /* fd may block: poll before each write                 */
    bool is_broken; /* nobody reads it any more, or it cannot be written    */
    int error; /* errno of why it is broken                            */
    struct wire_writer kept; /* bytes that wait                                      */
    size_t written; /* of them                                              */
    size_t dropped; /* lines                                                */
};

struct console {
    struct console_stream streams[2]; /* stdout, stderr                          */
    bool has_prefix; /* lines are marked with the rank                          */
    bool has_hosts; /* and with its host                                       */
    enum job_timestamps timestamps; /* and with the time                       */
    int rank_width; /* digits of the largest rank                               */
    int host_width; /* bytes of the longest host's name so far                  */
    int64_t start; /* of the job: our monotonic clock, ns                      */
    int64_t epoch; /* the time of day at monotonic 0, ns                       */
};

/** What a line is marked with. */
struct console_origin {
    int rank;
    const char *host;
    int64_t time; /* our monotonic clock, ns */
};

/** Takes over descriptors 1 and 2; never fails. */
void console_open(struct console *console, const struct options *options, int ranks);
/** Writes what is kept, however long that takes, and closes. */
void console_close(struct console *console);

/** The mark of a line; pure. Returns its length. */
size_t console_mark(const struct console *console, const struct console_origin *origin,
        char text[CONSOLE_MARK_MAX]);
/** True when a stream, of 0 and 1, is shown without marks, and not on a terminal. */
bool console_takes_bytes(const struct console *console, int stream);
/** Whole lines of a rank, or the bytes of one, for stream 1 (stdout) or 2 (stderr). */
void console_lines(struct console *console, int stream,
        const struct console_origin *origin, const char *lines, size_t len);
/** A line on stderr that is no rank's: "who: ..."; a newline is added. */
void console_print(struct console *console, const char *who, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/** What is no line, for a terminal: as it is, on stderr. */
void console_draw(struct console *console, const char *text);

/** Writes what can be written now. */
void console_flush(struct console *console);
/** True while a stream has bytes that wait; its index is tested alone. */
bool console_waits(const struct console *console, int stream);
/** True when so much waits that ranks should wait, too. */
bool console_is_full(const struct console *console);
/** 0, or errno of why stdout cannot be written: EPIPE when nobody reads it any more. */
int console_error(const struct console *console);

#endif
