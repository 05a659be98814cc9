/*
 * Ranks of one process for tests of the shared-memory backend: as virtual engines under a
 * seeded schedule in one thread, and as threads.
 *
 * A virtual engine that had nothing to do sleeps until it is woken, so a wake-up that is
 * missing shows as a job that does not end.
 */
#ifndef TUTTI_TEST_FLEET_H
#define TUTTI_TEST_FLEET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/shm/shm.h"
#include "test/unit/unit.h"

enum {
    FLEET_RANKS_MAX = 7,
    FLEET_SETS_MAX = 10 /* ids of clubs are below */
};

/** The ranks of a process. */
struct fleet {
    struct shm_domain *domain;
    int size;
    size_t chunk_bytes;
    struct op_env env[FLEET_RANKS_MAX];
    const struct op_backend *backend;
    void *state[FLEET_RANKS_MAX];
    _Atomic bool woken[FLEET_RANKS_MAX];
    _Atomic int wakes;
};

/* Set-ups of groups of tests: ranks that address all of each other's memory, or apart. */
int fleet_addresses_everything(void **state);
int fleet_is_apart(void **state);

/** A test with ranks that address everything, one with ranks apart, one with both in turn. */
#define TOGETHER_TEST(name) UNIT_TEST_WITH(name, fleet_addresses_everything, NULL)
#define APART_TEST(name) UNIT_TEST_WITH(name, fleet_is_apart, NULL)
#define BOTH_TEST(name) \
    UNIT_TEST_SET_UPS(name, fleet_addresses_everything, fleet_is_apart)

/** Opens op_shm on all ranks. Pieces are small, so that there are many. */
void fleet_open(struct fleet *fleet, int size);
/** With op_env.chunk_bytes. */
void fleet_open_pieces(struct fleet *fleet, int size, size_t chunk_bytes);
/**
 * Opens a backend on all ranks.
 * @param native_of  what a rank gets; fleet->domain is there
 */
void fleet_open_on(struct fleet *fleet, int size, const struct op_backend *backend,
        void *(*native_of)(struct fleet *fleet, int rank));
void fleet_close(struct fleet *fleet);
/** Where memory that all address comes from, of the open fleet; NULL: all address all. */
struct shm_domain *fleet_reservations(void);

/** A process set, or what of it takes part: world ranks in the set's order. */
struct club {
    uint32_t id, index;
    int size;
    int ranks[FLEET_RANKS_MAX];
};

struct club club_of_all(int size);
uint64_t next_random(uint64_t *state);

enum part_state {
    PART_NEW,
    PART_RUNNING,
    PART_DONE
};

/** A batch on all members of a club, as the schedule sees it; a test's job begins with it. */
struct play {
    const struct club *club;
    uint64_t sequence;
    enum part_state states[FLEET_RANKS_MAX]; /* set by start and step */
};

/**
 * Jobs in the order in which every rank starts those of one set. Every second rank begins
 * with the last set.
 */
struct program {
    void *jobs; /* [count] of job_size; owned by the test */
    size_t count;
    size_t job_size;
    tutti_status (*start)(struct fleet *fleet, void *job, int member);
    tutti_status (*step)(struct fleet *fleet, void *job, int member, bool *moved);
};

/** Runs a program until no rank can go on, with engines that sleep until they are woken. */
void fleet_run_scheduled(
        struct fleet *fleet, const struct program *program, uint64_t seed);
/** Runs a program to its end, with a thread for each rank. */
void fleet_run_threads(struct fleet *fleet, const struct program *program);

#endif
