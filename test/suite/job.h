/*
 * What a runner gives the suites: how all ranks meet outside of tutti, how they make
 * further contexts, and what those log.
 */
#ifndef TUTTI_TEST_SUITE_JOB_H
#define TUTTI_TEST_SUITE_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "test/suite/checks.h"

enum {
    LOG_LINES_MAX = 256,
    LOG_TEXT_MAX = 1024
};

/** A line that a context logged. */
struct log_line {
    int rank;
    char text[LOG_TEXT_MAX];
};

/** Lines of all ranks of this process; what does not fit is dropped. */
struct log_lines {
    pthread_mutex_t lock;
    size_t count;
    struct log_line lines[LOG_LINES_MAX];
};

/** The ranks of a run, as seen by one process. Zero `log` but for its lock. */
struct job {
    int size;
    bool processes; /* every rank is a process, so its configuration is its own */
    void *user; /* the runner's                                             */
    /* All ranks: a context; in one process rank 0's configuration counts. */
    tutti_status (*open)(
            struct job *job, int rank, const tutti_config *config, tutti **t);
    /* All ranks: returns when all have called it. */
    void (*meet)(struct job *job, int rank);
    struct log_lines log;
};

/** A parameter of a configuration; a list of them ends with a NULL name. */
struct setting {
    const char *name;
    const char *value;
};

/** All ranks meet outside of tutti, whose engine may sleep meanwhile. */
void job_meet(struct checks *c);

/**
 * All ranks make a context that logs to job->log. A failure is checked and gives NULL.
 * @param settings  NULL: none
 */
tutti *job_open(struct checks *c, const struct setting *settings);

/** As job_open() without the check. */
tutti_status job_try_open(struct checks *c, const struct setting *settings, tutti **t);

/** Forgets all lines logged so far; between two meetings, by one rank of a process. */
void job_clear_log(struct checks *c);

/** Copies the first line of a rank that contains a text; false when there is none. */
bool job_find_line(struct checks *c, int rank, const char *part, char *text);

/**
 * Checks, over t, that all its ranks hold the same text (cut at 1023 bytes).
 * @param name  of the broadcast that is used
 */
void job_same_text(struct checks *c, tutti *t, const char *name, const char *text);

#endif
