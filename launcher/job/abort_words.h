/*
 * What MPI prints when a rank calls MPI_Abort(). It then kills all ranks and supervisors at
 * once, so these words are all that tells who it was. Pure.
 */
#ifndef TUTTI_LAUNCHER_JOB_ABORT_WORDS_H
#define TUTTI_LAUNCHER_JOB_ABORT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/** What was read so far. Zeroed: nothing. */
struct abort_words {
    int rank; /* in MPI_COMM_WORLD; where has_rank */
    int code; /* that it gave; where has_code      */
    bool has_rank;
    bool has_code;
};

/** Takes text of the MPI launcher or of a rank's stderr: whole lines, as many as there are. */
void abort_words_take(struct abort_words *words, const char *text, size_t len);
/** True when a rank has called it, and rank and code are known. */
bool abort_words_are_complete(const struct abort_words *words);

#endif
