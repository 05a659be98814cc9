/*
 * Random programs: legal SPMD programs over the whole public API, made from a seed. What
 * all ranks must agree on comes from the seed alone; in what order, by which call and how
 * it is waited for comes from the seed and the rank.
 *
 * A program makes process sets and then goes through phases. In a phase every set gets
 * operations, alone or in groups, which are all submitted before any is waited for without
 * a time limit. Some phases end with an uneven number of reductions on one set, and a join.
 */
#ifndef TUTTI_TEST_SUITE_PROGRAM_H
#define TUTTI_TEST_SUITE_PROGRAM_H

#include <stdint.h>

#include "test/suite/flight.h"

enum {
    PROGRAM_RANKS_MAX = 64,
    PROGRAM_SETS_MAX = 4,
    PROGRAM_PHASES_MAX = 4,
    PROGRAM_UNITS_MAX = 8,
    PROGRAM_MEMBERS_MAX = 4,
    PROGRAM_STEPS_MAX = 4
};

/** A process set; the first one is the world. */
struct program_set {
    int ranks[PROGRAM_RANKS_MAX]; /* in the set's order */
    int size;
};

/** Operations of one set that are submitted together: a group when more than one. */
struct program_unit {
    int set;
    int count;
    struct operation operations[PROGRAM_MEMBERS_MAX];
};

/** Reductions of an uneven number of steps, and a join. */
struct program_join {
    int set; /* -1: none */
    int steps[PROGRAM_RANKS_MAX]; /* of each member, by its index */
    struct operation operations[PROGRAM_STEPS_MAX]; /* of the steps */
};

struct program_phase {
    int unit_count;
    struct program_unit units[PROGRAM_UNITS_MAX];
    struct program_join join;
};

struct program {
    uint64_t seed;
    int world;
    int set_count;
    struct program_set sets[PROGRAM_SETS_MAX];
    int phase_count;
    struct program_phase phases[PROGRAM_PHASES_MAX];
};

/** Makes a program for `world` ranks. */
void program_make(struct program *program, uint64_t seed, int world);

/** Runs a program on this rank; every bit is checked. */
void program_run(tutti *t, struct checks *c, const struct program *program);

#endif
