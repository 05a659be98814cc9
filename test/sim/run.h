/*
 * One run: a seed, a scenario, a schedule, and a verdict.
 */
#ifndef TUTTI_SIM_RUN_H
#define TUTTI_SIM_RUN_H

#include "world.h"

struct run_result {
    enum check check; /* CHECK_NONE: nothing was found */
    char finding[1400];
    int64_t events;
    struct digest digest;
    int ranks;
    enum sim_mode mode;
    uint64_t by_number, by_name; /* announcements of coordinators */
    uint64_t operands; /* outcomes that came with those of all members */
    uint64_t reused; /* places that got another number */
};

void run_seed(uint64_t seed, bool verbose, struct run_result *result);

/**
 * The launch order among virtual ranks: the tickets of the library under a seeded program of
 * device batches in overlapping process sets, creations, removals and joins. What the
 * negotiators would agree on is simple here: an operation is in the log of its set when all
 * its members have submitted it, and each member reads that log in its own time. Fills
 * `check`, `finding`, `events` and `ranks`.
 */
void launches_run_seed(uint64_t seed, bool verbose, struct run_result *result);

#endif
