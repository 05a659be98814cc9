/*
 * Why a job did not end well.
 */
#ifndef TUTTI_LAUNCHER_JOB_CAUSE_H
#define TUTTI_LAUNCHER_JOB_CAUSE_H

#include <stdint.h>

enum {
    CAUSE_TEXT_MAX = 1024 /* bytes of a cause in words with its zero */
};

enum cause_kind {
    CAUSE_NONE,
    CAUSE_RANK, /* a rank failed                                           */
    CAUSE_STARTER, /* the starter ended, or ended ranks, before its time       */
    CAUSE_START, /* not all ranks started in time                           */
    CAUSE_TIMEOUT, /* --timeout                                               */
    CAUSE_SIGNAL, /* tuttirun got a signal                                   */
    CAUSE_OUTPUT, /* nobody reads stdout any more                            */
    CAUSE_LAUNCHER /* tuttirun cannot go on                                   */
};

struct cause {
    enum cause_kind kind;
    int rank; /* of CAUSE_RANK, else -1                             */
    int exit_status; /* of tuttirun                                        */
    int64_t when; /* our clock                                          */
    char text[CAUSE_TEXT_MAX]; /* in words, without "tuttirun: "                  */
};

#endif
