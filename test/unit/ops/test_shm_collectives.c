/*
 * The collectives of the shared-memory backend but allreduce and broadcast (test_shm.c):
 * jobs of all of them (jobs.h), under a seeded schedule and as threads (fleet.h).
 *
 * Most tests run twice: with ranks that address all of each other's memory, and apart,
 * with ranks that address each other's reservations, in which every second run lies.
 */
#include "base/mem.h"
#include "test/unit/ops/jobs.h"
#include "test/unit/unit.h"

/*
 * Random jobs on random clubs. Clubs of one id are one set with and without ranks that
 * have joined: their jobs are numbered together.
 */
static struct program program_random(
        const struct club *clubs, size_t club_count, uint32_t lanes, uint64_t seed)
{
    struct program program = program_new(JOBS_MAX);
    struct job *jobs = program.jobs;
    uint64_t sequences[16][OP_LANES] = { 0 };
    uint64_t random = seed;

    program.last_lane = lanes - 1;
    for (size_t i = 0; i < program.count; i++) {
        struct job *job = &jobs[i];

        job->backend = &op_shm;
        job->play.club = &clubs[next_random(&random) % club_count];
        job->play.lane = (uint32_t)(next_random(&random) % lanes);
        job->play.sequence = sequences[job->play.club->id][job->play.lane]++;
        job_randomise(job, &random);
        job_make(job);
    }
    return program;
}

BOTH_TEST(test_sets_of_every_size)
{
    for (int size = 1; size <= FLEET_RANKS_MAX; size++) {
        struct club all = club_of_all(size);
        struct program program;
        struct fleet fleet;

        fleet_open(&fleet, size);
        program = program_random(&all, 1, 1, (uint64_t)size);
        run_scheduled(&fleet, &program, (uint64_t)size);
        fleet_close(&fleet);
    }
}

BOTH_TEST(test_overlapping_sets)
{
    const struct club clubs[] = {
        { .id = 0, .index = 0, .size = 5, .ranks = { 0, 1, 2, 3, 4 } },
        { .id = 9, .index = 3, .size = 3, .ranks = { 4, 0, 2 } },
        { .id = 4, .index = OP_SETS_MAX - 1, .size = 2, .ranks = { 2, 3 } },
    };

    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct program program;
        struct fleet fleet;

        fleet_open(&fleet, 5);
        program = program_random(clubs, 3, 1, seed);
        run_scheduled(&fleet, &program, seed);
        fleet_close(&fleet);
    }
}

/* Ranks start the lanes of a set in different orders (fleet.h). */
BOTH_TEST(test_lanes_do_not_wait_for_each_other)
{
    const struct club clubs[] = {
        { .id = 1, .index = 1, .size = 3, .ranks = { 2, 1, 0 } },
        { .id = 1, .index = 1, .size = 2, .ranks = { 2, 0 } },
        { .id = 2, .index = 2, .size = 2, .ranks = { 0, 1 } },
    };

    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct program program;
        struct fleet fleet;

        fleet_open(&fleet, 3);
        program = program_random(clubs, 3, 3, seed);
        run_scheduled(&fleet, &program, seed);
        fleet_close(&fleet);
    }
}

/* A rank misses batches 5 to 100 of a set and then takes part again, and once more. */
BOTH_TEST(test_a_rank_may_be_left_out)
{
    const struct club all = { .id = 3, .index = 2, .size = 3, .ranks = { 0, 1, 2 } };
    const struct club fewer = { .id = 3, .index = 2, .size = 2, .ranks = { 0, 2 } };

    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct program program = program_new(280);
        struct job *jobs = program.jobs;
        uint64_t random = seed;
        struct fleet fleet;

        fleet_open(&fleet, 3);
        for (size_t i = 0; i < program.count; i++) {
            struct job *job = &jobs[i];
            bool left_out = (i >= 5 && i <= 100) || (i >= 130 && i < 260);

            job->backend = &op_shm;
            job->play.club = left_out ? &fewer : &all;
            job->play.sequence = i;
            job_randomise(job, &random);
            job_make(job);
        }
        run_scheduled(&fleet, &program, seed);
        fleet_close(&fleet);
    }
}

BOTH_TEST(test_ranks_run_as_threads)
{
    const struct club clubs[] = {
        { .id = 1, .index = 1, .size = 4, .ranks = { 3, 2, 1, 0 } },
        { .id = 1, .index = 1, .size = 3, .ranks = { 3, 1, 0 } },
        { .id = 2, .index = 2, .size = 3, .ranks = { 0, 1, 3 } },
    };
    struct program program;
    struct fleet fleet;

    fleet_open(&fleet, 4);
    program = program_random(clubs, 3, OP_LANES, 77);
    fleet_run_threads(&fleet, &program);
    program_end(&program);
    fleet_close(&fleet);
}

/* One job of few bytes on three ranks. */
static void small_job_make(
        struct job *job, const struct club *club, tutti_collective collective)
{
    *job = (struct job){ .play = { .club = club },
        .backend = &op_shm,
        .collective = collective,
        .run_count = 2,
        .most = 50,
        .counts = { 20, 30 } };
    job_make(job);
}

/* Steps the members in turn to the end. */
static void finish(struct fleet *fleet, struct job *job)
{
    for (int turn = 0; turn < 30; turn++) {
        int member = turn % job->play.club->size;
        bool moved = false;

        if (job->play.states[member] == PART_NEW) {
            assert_int_equal(job_start(fleet, job, member), TUTTI_OK);
        } else if (job->play.states[member] == PART_RUNNING) {
            (void)job_step(fleet, job, member, &moved);
        }
    }
    assert_all_left(job);
}

TOGETHER_TEST(test_a_gather_holds_the_senders_until_the_root_has_copied)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    small_job_make(&job, &all, TUTTI_GATHER);
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_AGAIN);
    assert_int_equal(job_start(&fleet, &job, 2), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_AGAIN);
    assert_int_equal(
            job_step(&fleet, &job, 0, &moved), TUTTI_OK); /* waits for nobody */
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_OK);
    finish(&fleet, &job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_scatter_holds_only_its_root)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    small_job_make(&job, &all, TUTTI_SCATTER);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_AGAIN);
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    finish(&fleet, &job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_an_alltoall_holds_all_until_all_have_copied)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    small_job_make(&job, &all, TUTTI_ALLTOALL);
    for (int member = 0; member < 3; member++) {
        assert_int_equal(job_start(&fleet, &job, member), TUTTI_OK);
    }
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_AGAIN);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    assert_int_equal(job_step(&fleet, &job, 2, &moved), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_OK);
    finish(&fleet, &job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_failure_to_place_ends_the_batch)
{
    const struct club all = club_of_all(2);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 2);
    small_job_make(&job, &all, TUTTI_ALLGATHER);
    job.trades[1].fail_place_at = 2;
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_ERR_NO_MEMORY);
    assert_true(op_shm.cancel(fleet.state[1], job.trades[1].task));
    moved = false;
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    assert_false(moved); /* the memory of the other may be gone */
    assert_true(op_shm.cancel(fleet.state[0], job.trades[0].task));
    trade_free(&job.trades[0]);
    trade_free(&job.trades[1]);
    fleet_close(&fleet);
}
