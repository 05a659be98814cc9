/*
 * Jobs of any collective for fleets (fleet.h): batches with random inputs, a schedule's
 * start and step of them on the backend of the fleet, and the check of what came out.
 *
 * Reductions are of all types, with inputs that differ by rank, and compared bit for bit
 * with what job.reduce says, reduce_tree() at first; of exchanges trade.h says what is
 * right. Of ranks that are apart every second run lies where others address it.
 */
#ifndef TUTTI_TEST_JOBS_H
#define TUTTI_TEST_JOBS_H

#include "test/trade.h"
#include "test/unit/ops/fleet.h"

enum {
    RUNS_MAX = 4,
    JOBS_MAX = 240
};

/** A member's memory of what is no exchange. */
struct reduction {
    struct op_batch batch;
    struct op_run runs[RUNS_MAX];
    struct op_part parts[RUNS_MAX][FLEET_RANKS_MAX];
    uint8_t *inputs[RUNS_MAX]; /* with guards; owned */
    uint8_t *outputs[RUNS_MAX]; /* likewise; the inputs when in place */
    void *task; /* owned */
};

struct job {
    struct play play;
    const struct op_backend *backend; /* it runs on */
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_reduce_op op;
    double prescale, postscale;
    int root;
    bool in_place;
    bool sizes_known;
    size_t run_count;
    size_t counts[RUNS_MAX]; /* of a reduction or a broadcast */
    size_t most; /* of an exchange */
    /* What `count` elements of all members' operands give. */
    void (*reduce)(const struct job *job, const void *const *operands, void *output,
            size_t count);
    struct op_set sets[FLEET_RANKS_MAX];
    struct trade trades[FLEET_RANKS_MAX];
    struct reduction reductions[FLEET_RANKS_MAX];
};

/** A job with play and backend set: any collective but ALLREDUCE and BROADCAST. */
void job_randomise(struct job *job, uint64_t *random);
/** Makes the memory of all members. */
void job_make(struct job *job);
/** The one tree over all members: what job.reduce is at first. */
void job_reduce_flat(
        const struct job *job, const void *const *operands, void *output, size_t count);

/* As a program has them (fleet.h). A member that leaves is checked. */
tutti_status job_start(struct fleet *fleet, void *user, int member);
tutti_status job_step(struct fleet *fleet, void *user, int member, bool *moved);
/** The task of a member. */
void *job_task(struct job *job, int member);
void assert_all_left(const struct job *job);

/** Memory of a rank that the others address; NULL: its memory is private. */
const struct trade_store *store_of(int rank);

/** Jobs that are not made yet. */
struct program program_new(size_t count);
/** Checks that all members left all jobs, and frees them. */
void program_end(const struct program *program);
/** Runs to the end of a program under a schedule. */
void run_scheduled(struct fleet *fleet, const struct program *program, uint64_t seed);

#endif
