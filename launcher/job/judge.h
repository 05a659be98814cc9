/*
 * Which rank failed first: the one whose end is the cause of the others'. Pure.
 *
 * A rank has failed when it was killed, exited with a status, could not be run, was
 * lost, or exited with 0 while the library had not been finalized and others ran on.
 * What we or the engine ended is no cause unless there is no other. The earliest counts;
 * a lost connection is taken for later than it was by JUDGE_LOST_NS and by what clocks
 * may be wrong, so that of equals a signal or an exit is the cause.
 */
#ifndef TUTTI_LAUNCHER_JOB_JUDGE_H
#define TUTTI_LAUNCHER_JOB_JUDGE_H

#include <stdbool.h>

#include "launcher/job/ranks.h"

enum {
    JUDGE_LOST_NS = 2000000 /* a lost connection counts as so much later */
};

/** True for a rank that exited with 0 while its library had not been finalized. */
bool judge_has_left(const struct rank *rank);
/** The rank that failed first, or -1 when none has. */
int judge_first(const struct ranks *ranks);

#endif
