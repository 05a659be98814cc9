/*
 * The team of a communicator: what its ranks share, so that tutti carries out its collectives.
 *
 * It is made at the first collective that is long enough, by all ranks, and is an attribute of
 * the communicator, which MPI deletes with it. A communicator whose ranks cannot all share
 * memory has one, too, which says so; then all of its collectives are MPI's. All ranks know
 * the same about it.
 *
 * MPI allows one collective of a communicator at a time, so nothing of a team is locked;
 * threads use the teams of different communicators at the same time.
 */
#ifndef TUTTI_PRELOAD_TEAM_H
#define TUTTI_PRELOAD_TEAM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/cpu.h"
#include "base/doorbell.h"
#include "ops/op.h"
#include "preload/preload.h"

/** Most ranks of a team: what they tell each other first lies on the stack. */
#define TEAM_RANKS_MAX 256

struct shm_domain;

struct team {
    struct team *next, *previous; /* in the list of all; see team.c */
    const struct preload *preload; /* borrowed */
    MPI_Comm comm; /* borrowed: it owns the team */
    int rank, ranks;
    bool usable; /* the same on all ranks: tutti carries out its collectives */

    struct shm_domain *domain; /* owned */
    struct op_env env;
    struct op_set set;
    int *members; /* [ranks] 0, 1, 2, ...; owned */
    struct doorbell **bells; /* [ranks] in memory that the ranks share; owned array */
    struct op_part *sends, *recvs; /* [ranks] of the exchange that runs; owned */
    void *state; /* of the backend; NULL: closed */
    void *task; /* memory for a batch in flight; owned */
    uint64_t sequence; /* of the next batch */
    struct cpu_load load;
};

/**
 * The team for a collective of so many bytes, made now if the communicator has none and the
 * collective is long enough; then all ranks of the communicator call it, with equal arguments.
 * @return NULL: the collective is MPI's
 */
struct team *team_for(const struct preload *preload, MPI_Comm comm,
        const struct preload_limits *limits, size_t bytes);
/** Leaves all teams in order; the process may end from now on. */
void team_close_all(void);
/** The callback for preload.team_key. */
int team_delete(MPI_Comm comm, int key, void *value, void *extra);

/**
 * Makes a team; all ranks of the communicator call it, with the same outcome (team_open.c).
 * @param team  zeroed memory for it; NULL: this rank has none
 * @return false: there is none, and its memory holds nothing
 */
bool team_open(
        struct team *team, const struct preload *preload, MPI_Comm comm, int ranks);
/** Undoes it: the other ranks see that this one has left in order. Also half-way. */
void team_close(struct team *team);

/**
 * Carries out a batch of one run, of which set, sequence and the like are filled in here, and
 * returns when it is over on this rank. Meanwhile MPI's messages move (team_run.c).
 * @return MPI_SUCCESS, or an error, of which the communicator's error handler has heard
 */
int team_run(struct team *team, struct op_batch *batch);

#endif
