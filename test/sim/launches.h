/*
 * The launch order among virtual ranks: the tickets of the library under a seeded program of
 * device batches in overlapping process sets, lanes, creations, removals and joins.
 *
 * What the negotiators would agree on is simple here: an operation is in the log of its lane
 * when all its members have submitted it, and each member reads that log in its own time.
 */
#ifndef TUTTI_SIM_LAUNCHES_H
#define TUTTI_SIM_LAUNCHES_H

#include "run.h"

/** Like run_seed(); fills `check`, `finding`, `events` and `ranks`. */
void launches_run_seed(uint64_t seed, struct observer *observer, bool verbose,
        struct run_result *result);

#endif
