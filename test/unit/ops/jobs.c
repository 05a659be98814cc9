/*
 * Making, running and checking jobs.
 */
#include "test/unit/ops/jobs.h"

#include <stdlib.h>

#include "test/batch/reference.h"

enum {
    JOBS = 120 /* of a random program */
};

static const int rank_numbers[FLEET_RANKS_MAX] = { 0, 1, 2, 3, 4, 5, 6 };
static struct batch_store stores[FLEET_RANKS_MAX];

static void *reserved_alloc(void *user, size_t bytes)
{
    const int *rank = user;

    return shm_domain_alloc(fleet_reservations(), *rank, bytes);
}

static void reserved_free(void *user, void *memory)
{
    const int *rank = user;

    shm_domain_free(fleet_reservations(), *rank, memory);
}

const struct batch_store *store_of(int rank)
{
    if (fleet_reservations() == NULL) {
        return NULL;
    }
    stores[rank] = (struct batch_store){ .alloc = reserved_alloc,
        .free = reserved_free,
        .user = (void *)(uintptr_t)&rank_numbers[rank] };
    return &stores[rank];
}

void job_make(struct job *job)
{
    const struct club *club = job->play.club;

    assert_true(club->id < FLEET_SETS_MAX);
    for (int member = 0; member < club->size; member++) {
        struct batch_order order = job->order;

        job->sets[member] = (struct op_set){ .id = club->id,
            .index = club->index,
            .rank = member,
            .size = club->size,
            .world_ranks = club->ranks };
        job->play.states[member] = PART_NEW;
        order.set = &job->sets[member];
        order.sequence = job->play.sequence;
        order.store = store_of(club->ranks[member]);
        batch_make(&job->batches[member], &order, job->backend->task_bytes);
    }
}

tutti_status job_start(struct fleet *fleet, void *user, int member)
{
    struct job *job = user;
    struct batch *batch = &job->batches[member];
    void *state = fleet->state[job->play.club->ranks[member]];
    tutti_status status;

    assert_true(job->backend->accepts(state, &batch->op));
    status = job->backend->start(state, batch->task, &batch->op);
    if (status == TUTTI_OK) {
        job->play.states[member] = PART_RUNNING;
    }
    return status;
}

/* A member left: what it has must be right, and nobody may touch it from now on. */
static void member_leaves(struct job *job, int member)
{
    const char *error = batch_error(&job->batches[member]);

    job->play.states[member] = PART_DONE;
    if (error != NULL) {
        fail_msg("member %d of %d, batch %d: %s", member, job->play.club->size,
                (int)job->play.sequence, error);
    }
    batch_free(&job->batches[member]);
}

tutti_status job_step(struct fleet *fleet, void *user, int member, bool *moved)
{
    struct job *job = user;
    void *state = fleet->state[job->play.club->ranks[member]];
    bool has_moved = false; /* steps only ever set it */
    const tutti_status status =
            job->backend->step(state, job->batches[member].task, &has_moved);

    if (status == TUTTI_OK) {
        assert_true(has_moved);
        member_leaves(job, member);
    }
    *moved = has_moved;
    return status;
}

void assert_member_waits(struct fleet *fleet, struct job *job, int member)
{
    bool moved = true;

    assert_int_equal(job_step(fleet, job, member, &moved), TUTTI_AGAIN);
    assert_false(moved);
}

static bool is_done(const struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        if (job->play.states[member] != PART_DONE) {
            return false;
        }
    }
    return true;
}

void job_finish(struct fleet *fleet, struct job *job)
{
    for (int turn = 0; !is_done(job); turn++) {
        const int member = turn % job->play.club->size;
        bool moved = false;

        assert_true(turn < 1000);
        if (job->play.states[member] == PART_NEW) {
            ASSERT_OK(job_start(fleet, job, member));
        }
        if (job->play.states[member] != PART_DONE) {
            (void)job_step(fleet, job, member, &moved);
        }
    }
}

void job_free(struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        if (job->play.states[member] != PART_DONE) {
            batch_free(&job->batches[member]);
        }
    }
}

struct program program_new(size_t count)
{
    return (struct program){ .jobs = must_alloc(count, sizeof(struct job)),
        .count = count,
        .job_size = sizeof(struct job),
        .start = job_start,
        .step = job_step };
}

struct program program_random(const struct club *clubs, size_t club_count,
        uint64_t seed, void (*choose)(struct job *job, uint64_t *random))
{
    struct program program = program_new(JOBS);
    struct job *jobs = program.jobs;
    uint64_t sequences[FLEET_SETS_MAX] = { 0 };
    uint64_t random = seed;

    for (size_t i = 0; i < program.count; i++) {
        struct job *job = &jobs[i];

        job->play.club = &clubs[next_random(&random) % club_count];
        job->play.sequence = sequences[job->play.club->id]++;
        choose(job, &random);
        job_make(job);
    }
    return program;
}

static void program_end(const struct program *program)
{
    struct job *jobs = program->jobs;

    for (size_t i = 0; i < program->count; i++) {
        assert_true(is_done(&jobs[i]));
    }
    free(jobs);
}

void run_scheduled(struct fleet *fleet, const struct program *program, uint64_t seed)
{
    fleet_run_scheduled(fleet, program, seed);
    program_end(program);
}

void run_threads(struct fleet *fleet, const struct program *program)
{
    fleet_run_threads(fleet, program);
    program_end(program);
}
