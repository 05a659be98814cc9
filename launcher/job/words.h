/*
 * Ends of ranks in words, and as exit statuses of tuttirun. Pure.
 */
#ifndef TUTTI_LAUNCHER_JOB_WORDS_H
#define TUTTI_LAUNCHER_JOB_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "launcher/job/ranks.h"

enum {
    WORDS_MAX = 512 /* bytes of an end in words with its zero */
};

/** "signal 11 (SIGSEGV)", or "signal 40" for one without a name. */
void words_signal(int number, char *text, size_t capacity);
/** What happened to a rank: "was killed by signal 11 (SIGSEGV)"; "" before its end. */
void words_end(const struct rank *rank, char text[WORDS_MAX]);
/** "12.3 s" or "35 ms" or "3 min 20 s". */
void words_duration(int64_t ns, char *text, size_t capacity);
/** The exit status of tuttirun when this rank is the cause. */
int words_exit_status(const struct rank *rank);

#endif
