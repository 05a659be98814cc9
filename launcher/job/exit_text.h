/*
 * Ends of ranks in words, and as exit statuses of tuttirun. Pure.
 */
#ifndef TUTTI_LAUNCHER_JOB_EXIT_TEXT_H
#define TUTTI_LAUNCHER_JOB_EXIT_TEXT_H

#include <stddef.h>
#include <stdint.h>

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

#endif
