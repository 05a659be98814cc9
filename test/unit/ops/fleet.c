/*
 * Fleets and their schedules.
 */
#include "test/unit/ops/fleet.h"

#include <pthread.h>
#include <sched.h>

#include "test/unit/unit.h"

#define PIECE_BYTES ((size_t)8192)

/* Set by the groups of tests. */
static bool are_apart;
static struct shm_domain *reservations;

int fleet_addresses_everything(void **state)
{
    (void)state;
    are_apart = false;
    return 0;
}

int fleet_is_apart(void **state)
{
    (void)state;
    are_apart = true;
    return 0;
}

static void fleet_wake(void *user, int world_rank)
{
    struct fleet *fleet = user;

    atomic_store(&fleet->woken[world_rank], true);
    atomic_fetch_add(&fleet->wakes, 1);
}

static void *domain_of(struct fleet *fleet, int rank)
{
    (void)rank;
    return fleet->domain;
}

static void open_all(struct fleet *fleet, int size, const struct op_backend *backend,
        void *(*native_of)(struct fleet *fleet, int rank))
{
    fleet->domain = are_apart ? shm_domain_create_apart(size) : shm_domain_create(size);
    assert_non_null(fleet->domain);
    reservations = are_apart ? fleet->domain : NULL;
    fleet->size = size;
    fleet->backend = backend;
    atomic_init(&fleet->wakes, 0);
    for (int rank = 0; rank < size; rank++) {
        atomic_init(&fleet->woken[rank], true);
        fleet->env[rank] = (struct op_env){ .world_rank = rank,
            .world_size = size,
            .chunk_bytes = fleet->chunk_bytes,
            .native = native_of(fleet, rank),
            .wake = fleet_wake,
            .wake_user = fleet };
        ASSERT_OK(backend->open(&fleet->env[rank], &fleet->state[rank]));
    }
}

void fleet_open(struct fleet *fleet, int size)
{
    fleet_open_pieces(fleet, size, PIECE_BYTES);
}

void fleet_open_pieces(struct fleet *fleet, int size, size_t chunk_bytes)
{
    fleet->chunk_bytes = chunk_bytes;
    open_all(fleet, size, &op_shm, domain_of);
}

void fleet_open_on(struct fleet *fleet, int size, const struct op_backend *backend,
        void *(*native_of)(struct fleet *fleet, int rank))
{
    fleet->chunk_bytes = PIECE_BYTES;
    open_all(fleet, size, backend, native_of);
}

void fleet_close(struct fleet *fleet)
{
    for (int rank = 0; rank < fleet->size; rank++) {
        fleet->backend->close(fleet->state[rank]);
    }
    shm_domain_destroy(fleet->domain);
    reservations = NULL;
}

struct shm_domain *fleet_reservations(void)
{
    return reservations;
}

struct club club_of_all(int size)
{
    struct club club = { .size = size };

    for (int i = 0; i < size; i++) {
        club.ranks[i] = i;
    }
    return club;
}

uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---------------------------------------------------------------- schedules */

static struct play *play_at(const struct program *program, size_t index)
{
    return (struct play *)(void *)((char *)program->jobs + index * program->job_size);
}

static int member_of(const struct club *club, int rank)
{
    for (int member = 0; member < club->size; member++) {
        if (club->ranks[member] == rank) {
            return member;
        }
    }
    return -1;
}

/* No batch OP_INFLIGHT_MAX or more before it in the set is in flight, as op.h promises. */
static bool may_start(const struct program *program, size_t index, int rank)
{
    const struct play *play = play_at(program, index);

    for (size_t i = 0; i < index; i++) {
        const struct play *earlier = play_at(program, i);
        int member = member_of(earlier->club, rank);

        if (member >= 0 && earlier->club->id == play->club->id &&
                earlier->sequence + OP_INFLIGHT_MAX <= play->sequence &&
                earlier->states[member] != PART_DONE) {
            return false;
        }
    }
    return true;
}

/* The jobs of one set in a turn; what is started comes off *starts. */
static bool set_turn(struct fleet *fleet, const struct program *program, uint32_t set,
        int rank, int *starts)
{
    bool anything = false;

    for (size_t i = 0; i < program->count; i++) {
        struct play *play = play_at(program, i);
        int member = member_of(play->club, rank);
        bool moved = false;

        if (member < 0 || play->states[member] == PART_DONE || play->club->id != set) {
            continue;
        }
        if (play->states[member] == PART_NEW) {
            if (*starts == 0 || !may_start(program, i, rank)) {
                break;
            }
            --*starts;
            anything = true;
            ASSERT_OK(program->start(fleet, play, member));
        }
        assert_in_range(
                program->step(fleet, play, member, &moved), TUTTI_OK, TUTTI_AGAIN);
        anything = anything || moved;
    }
    return anything;
}

/**
 * One turn of a rank's engine: starts up to `starts` jobs and steps what is running.
 * @return true when anything happened
 */
static bool engine_progress(
        struct fleet *fleet, const struct program *program, int rank, int starts)
{
    bool anything = false;

    for (uint32_t i = 0; i < FLEET_SETS_MAX; i++) {
        const uint32_t set = rank % 2 == 0 ? i : FLEET_SETS_MAX - 1 - i;

        anything = set_turn(fleet, program, set, rank, &starts) || anything;
    }
    return anything;
}

static bool rank_is_done(const struct program *program, int rank)
{
    for (size_t i = 0; i < program->count; i++) {
        const struct play *play = play_at(program, i);
        int member = member_of(play->club, rank);

        if (member >= 0 && play->states[member] != PART_DONE) {
            return false;
        }
    }
    return true;
}

/* A random rank that is neither done nor asleep, or -1. */
static int pick_rank(
        struct fleet *fleet, const struct program *program, uint64_t *random)
{
    int first = (int)(next_random(random) % (uint64_t)fleet->size);

    for (int i = 0; i < fleet->size; i++) {
        int rank = (first + i) % fleet->size;

        if (atomic_load(&fleet->woken[rank]) && !rank_is_done(program, rank)) {
            return rank;
        }
    }
    return -1;
}

void fleet_run_scheduled(
        struct fleet *fleet, const struct program *program, uint64_t seed)
{
    uint64_t random = seed;
    int rank = pick_rank(fleet, program, &random);

    while (rank >= 0) {
        int starts = (int)(next_random(&random) % 4);

        atomic_store(&fleet->woken[rank], false);
        if (engine_progress(fleet, program, rank, starts) || starts == 0) {
            atomic_store(&fleet->woken[rank], true);
        }
        rank = pick_rank(fleet, program, &random);
    }
}

/** What a thread that is a rank needs. */
struct rank_thread {
    pthread_t thread;
    struct fleet *fleet;
    const struct program *program;
    int rank;
};

static void *rank_main(void *user)
{
    struct rank_thread *self = user;

    while (!rank_is_done(self->program, self->rank)) {
        if (!engine_progress(self->fleet, self->program, self->rank, 3)) {
            (void)sched_yield();
        }
    }
    return NULL;
}

void fleet_run_threads(struct fleet *fleet, const struct program *program)
{
    struct rank_thread threads[FLEET_RANKS_MAX];

    for (int rank = 0; rank < fleet->size; rank++) {
        threads[rank] = (struct rank_thread){
            .fleet = fleet, .program = program, .rank = rank
        };
        assert_int_equal(
                pthread_create(&threads[rank].thread, NULL, rank_main, &threads[rank]),
                0);
    }
    for (int rank = 0; rank < fleet->size; rank++) {
        assert_int_equal(pthread_join(threads[rank].thread, NULL), 0);
    }
}
