/*
 * What is said at the end of a job that failed, as text for people and as JSON.
 */
#ifndef TUTTI_LAUNCHER_JOB_REPORT_H
#define TUTTI_LAUNCHER_JOB_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/job/ranks.h"

enum {
    EXIT_TEXT_MAX = 512 /* bytes of an end in words with its zero */
};

/** "signal 11 (SIGSEGV)", or "signal 40" for one without a name. */
void exit_text_signal(int number, char *text, size_t capacity);
/** What happened to a rank: "was killed by signal 11 (SIGSEGV)"; "" before its end. */
void exit_text_end(const struct rank *rank, char text[EXIT_TEXT_MAX]);
/** "12.3 s" or "35 ms" or "3 min 20 s". */
void exit_text_duration(int64_t ns, char *text, size_t capacity);
/** The exit status of tuttirun when this rank is the cause. */
int exit_text_status(const struct rank *rank);

enum {
    CAUSE_TEXT_MAX = 1024, /* bytes of a cause in words with its zero */
    REPORT_OTHERS = 8 /* lines about other ranks at most          */
};

enum cause_kind {
    CAUSE_NONE,
    CAUSE_RANK, /* a rank failed                                           */
    CAUSE_MPI_LAUNCHER, /* the MPI launcher ended, or ended ranks, before its time       */
    CAUSE_START, /* not all ranks started in time                           */
    CAUSE_TIMEOUT, /* --timeout                                               */
    CAUSE_SIGNAL, /* tuttirun got a signal                                   */
    CAUSE_OUTPUT, /* nobody reads stdout any more                            */
    CAUSE_LAUNCHER /* tuttirun cannot go on                                   */
};

/** Why a job did not end well. */
struct cause {
    enum cause_kind kind;
    int rank; /* of CAUSE_RANK, else -1                             */
    int exit_status; /* of tuttirun                                        */
    int64_t when; /* our clock                                          */
    char text[CAUSE_TEXT_MAX]; /* in words, without "tuttirun: "                  */
};
/** All that a report tells of. Borrowed. */
struct report_facts {
    const struct ranks *ranks;
    const struct cause *cause;
    int64_t start; /* of the job, our clock                                 */
    int64_t end; /* of the job, our clock                                 */
    int64_t epoch; /* the time of day at our clock's 0, ns                  */
    int exit_status; /* of tuttirun                                           */
    bool has_hosts; /* there is more than one                                */
};

/** Is called with each line, without "tuttirun: " and newline. */
typedef void (*report_line)(void *context, const char *line);

/**
 * The text of a failure: the cause, its last words, its log, and a line for each other
 * rank that did not end well. Pure.
 */
void report_text(const struct report_facts *facts, report_line line, void *context);
/** The part of it that is about the cause. Pure. */
void report_cause(const struct report_facts *facts, report_line line, void *context);
/**
 * Writes the cause to a file that a platform shows the beginning of.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status report_failure(
        const struct report_facts *facts, const char *path);
/** The cause of a rank in one sentence, for report and survivors. */
void report_rank(
        const struct report_facts *facts, int index, char text[CAUSE_TEXT_MAX]);
/** The same of a rank that the one that failed had waited for, and that was ended then. */
void report_absentee(
        const struct report_facts *facts, int index, char text[CAUSE_TEXT_MAX]);
/**
 * Writes the JSON file, whole or not at all. A pipe or a device is written to as it is.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status report_write(
        const struct report_facts *facts, const char *path);

#endif
