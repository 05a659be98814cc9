/*
 * Programs that run beside us: their input is a pipe that we write, and what they write is
 * kept, up to a limit. Many at once, by a loop. One thread.
 */
#ifndef TUTTI_LAUNCHER_PROCESS_H
#define TUTTI_LAUNCHER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tutti/tutti.h>

#include "launcher/session/loop.h"

enum {
    PROCESS_OUTPUT_MAX = 1 << 22 /* bytes kept of what has not been taken */
};

/** What was written on one stream and not yet taken. */
struct process_stream {
    int fd; /* -1: at its end                        */
    char *text; /* owned; not terminated                 */
    size_t len; /* bytes in text                         */
    size_t capacity; /* bytes allocated                       */
    bool is_cut; /* some of it was too much, and is lost  */
};

/** Zeroed is a process that never ran: valid input for process_fini(). */
struct process {
    pid_t pid; /* 0: never started                                    */
    bool is_group; /* it leads a process group, which ends with it        */
    bool has_ended; /* it was waited for; `status` is valid                 */
    int status; /* as a shell has it: 0 to 255, 128 + signal            */
    int signal; /* that ended it; 0: it exited                          */
    int in; /* our end of its input; -1: closed                     */
    int end; /* pidfd, readable when it has ended; -1: closed        */
    struct loop *loop; /* that watches it; NULL: none                         */
    struct loop_watch
            watches[3]; /* of out, err and end                                 */
    struct process_stream out;
    struct process_stream err;
};

/**
 * Starts a program, found in our PATH.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (it cannot be started; nothing to release)
 */
TUTTI_MUST_USE tutti_status process_start(
        struct process *process, char *const *argv, char *const *environment);
/** The same in a process group of its own: whom it leaves behind is killed at its end. */
TUTTI_MUST_USE tutti_status process_start_group(
        struct process *process, char *const *argv, char *const *environment);

/** Has a loop take what it writes, and notice its end: until then the process stays. */
void process_watch(struct process *process, struct loop *loop);

/** Writes all of it to its input; errors are left to be seen as its end. */
void process_write(struct process *process, const char *text, size_t len);
/** Ends its input. */
void process_close_input(struct process *process);

/**
 * Takes the next line, without its newline, cut at capacity - 1 bytes. After the end of the
 * process a last line without a newline counts.
 * @return false when there is none
 */
bool process_take_line(struct process *process, char *line, size_t capacity);
/** The last line that is not blank of what it wrote to stderr; "" when there is none. */
void process_last_words(const struct process *process, char *text, size_t capacity);

/**
 * Ends its input and waits for its end, also while signals are held (signals.h); no other loop
 * watches it.
 * @return false when it had not ended at the deadline or at a signal that ends us, and was killed
 */
bool process_finish(struct process *process, int64_t until_ns);
/** Runs a program to its end; kills it at the deadline. @return as process_start() */
TUTTI_MUST_USE tutti_status process_run(struct process *process, char *const *argv,
        char *const *environment, int64_t until_ns);

/** Kills it when it still runs, waits for it and releases what it wrote. */
void process_fini(struct process *process);

#endif
