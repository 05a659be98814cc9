/*
 * Which rank failed first: the one whose end is the cause of the others'. Pure.
 *
 * A rank has failed when it was killed, exited with a status, could not be run, was
 * lost, or exited with 0 while the library had not been finalized and others ran on.
 * What we or the MPI launcher ended is no cause unless there is no other. A rank that another one
 * had told of a failed context is the cause only where no rank failed without being told. The
 * earliest counts. A lost connection is dated later, by ROOT_CAUSE_LOST_NS and by the error
 * of the clocks, so that of two at the same time a signal or an exit is the cause.
 */
#ifndef TUTTI_LAUNCHER_JOB_ROOT_CAUSE_H
#define TUTTI_LAUNCHER_JOB_ROOT_CAUSE_H

#include <stdbool.h>

#include "launcher/job/ranks.h"

enum {
    ROOT_CAUSE_LOST_NS = 2000000 /* a lost connection counts as so much later */
};

/**
 * True for a rank that exited with 0 while its library had not been finalized, or while others
 * waited for it in MPI_Init.
 */
bool root_cause_has_left(const struct rank *rank);
/** The rank that failed first, or -1 when none has. */
int root_cause_first(const struct ranks *ranks);

/**
 * True for a rank whose program ran on, outside tutti, until we or the MPI launcher ended it: it had
 * a context, and never saw that this had failed.
 */
bool root_cause_is_outside(const struct rank *rank);
/**
 * The rank whose absence made `first` fail: the first one that stayed outside tutti of those
 * that it waited for too long; -1 when it did not fail for that. Known when all have ended.
 */
int root_cause_absentee(const struct ranks *ranks, int first);

#endif
