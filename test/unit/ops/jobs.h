/*
 * Jobs for fleets (fleet.h): a batch of any operation (test/batch) on all members of a club, a
 * schedule's start and step of it, and the check of what came out. Of ranks that are apart about
 * half of the memory lies where others address it.
 */
#ifndef TUTTI_TEST_JOBS_H
#define TUTTI_TEST_JOBS_H

#include "test/batch/batch.h"
#include "test/unit/ops/fleet.h"

struct job {
    struct play play;
    const struct op_backend *backend; /* it runs on */
    struct batch_order order; /* but for set and store */
    struct op_set sets[FLEET_RANKS_MAX];
    struct batch batches[FLEET_RANKS_MAX];
};

/** Makes the memory of all members. */
void job_make(struct job *job);
/** As a program has them (fleet.h). A member that leaves is checked, and its memory freed. */
tutti_status job_start(struct fleet *fleet, void *user, int member);
tutti_status job_step(struct fleet *fleet, void *user, int member, bool *moved);
/** Steps a member that cannot go on. */
void assert_member_waits(struct fleet *fleet, struct job *job, int member);
/** Starts the members that have not, and steps all in turn to the end. */
void job_finish(struct fleet *fleet, struct job *job);
/** Frees what was given up. */
void job_free(struct job *job);

/** Memory of a rank that the others address; NULL: its memory is private. */
const struct batch_store *store_of(int rank);

/** Jobs that are not made yet. */
struct program program_new(size_t count);
/**
 * Random jobs on random clubs. Clubs of one id are one set with and without ranks that have
 * joined: their jobs are numbered together.
 * @param choose  fills backend and order
 */
struct program program_random(const struct club *clubs, size_t club_count,
        uint64_t seed, void (*choose)(struct job *job, uint64_t *random));
/** Runs to the end of a program under a schedule, or as threads, and frees it. */
void run_scheduled(struct fleet *fleet, const struct program *program, uint64_t seed);
void run_threads(struct fleet *fleet, const struct program *program);

#endif
