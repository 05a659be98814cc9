/*
 * The shared-memory backend: jobs of all collectives (jobs.h), under a seeded schedule and as
 * threads (fleet.h).
 *
 * Most tests run twice: with ranks that address all of each other's memory, and apart, with
 * ranks that address each other's reservations.
 */
#include <string.h>

#include "base/mem.h"
#include "test/unit/ops/jobs.h"

static void choose(struct job *job, uint64_t *random)
{
    const uint64_t number = next_random(random);

    job->backend = &op_shm;
    job->order = batch_order_random(job->play.club->size, number);
    if (number >> 32 & 1) { /* what there is most of */
        job->order.operation.collective =
                (number >> 33) % 4 == 0 ? TUTTI_BROADCAST : TUTTI_ALLREDUCE;
    }
}

/* Random jobs on clubs of so many ranks. */
static void run_random(int size, const struct club *clubs, size_t count, uint64_t seed)
{
    struct program program;
    struct fleet fleet;

    fleet_open(&fleet, size);
    program = program_random(clubs, count, seed, choose);
    run_scheduled(&fleet, &program, seed);
    fleet_close(&fleet);
}

BOTH_TEST(test_sets_of_every_size)
{
    for (int size = 1; size <= FLEET_RANKS_MAX; size++) {
        const struct club all = club_of_all(size);

        run_random(size, &all, 1, (uint64_t)size);
    }
}

/* Ranks start the batches of the sets in different orders (fleet.h). */
BOTH_TEST(test_overlapping_sets)
{
    const struct club clubs[] = {
        { .id = 0, .index = 0, .size = 5, .ranks = { 0, 1, 2, 3, 4 } },
        { .id = 9, .index = 3, .size = 3, .ranks = { 4, 0, 2 } },
        { .id = 9, .index = 3, .size = 2, .ranks = { 4, 2 } },
        { .id = 4, .index = OP_SETS_MAX - 1, .size = 2, .ranks = { 2, 3 } },
    };

    for (uint64_t seed = 1; seed <= 6; seed++) {
        run_random(5, clubs, 4, seed);
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
            const bool left_out = (i >= 5 && i <= 100) || (i >= 130 && i < 260);

            jobs[i].play.club = left_out ? &fewer : &all;
            jobs[i].play.sequence = i;
            choose(&jobs[i], &random);
            job_make(&jobs[i]);
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
    program = program_random(clubs, 3, 77, choose);
    run_threads(&fleet, &program);
    fleet_close(&fleet);
}

/* A sum of float32 in place, or bytes that are moved, on a club. */
static void simple_job_make(struct job *job, const struct club *club, uint64_t sequence,
        tutti_collective collective, int64_t count)
{
    const bool is_sum = collective == TUTTI_ALLREDUCE;

    *job = (struct job){ .play = { .club = club, .sequence = sequence },
        .backend = &op_shm,
        .order.operation = { .collective = collective,
                .pattern.dtype = is_sum ? TUTTI_FLOAT32 : TUTTI_UINT8,
                .in_place = is_sum || collective == TUTTI_BROADCAST,
                .form = is_sum ? FORM_EQUAL : FORM_UNKNOWN,
                .count = count } };
    job_make(job);
}

/* Steps a member: once, or until it cannot go on. */
static void step(struct fleet *fleet, struct job *job, int member, char how)
{
    bool moved = true;

    do {
        assert_int_equal(job_step(fleet, job, member, &moved),
                how == '!' ? TUTTI_OK : TUTTI_AGAIN);
    } while (how == '*' && moved);
}

/*
 * Plays words, each of a member and what it does: + starts, ~ steps, * steps until it cannot go
 * on, . cannot go on, ! leaves. =n: n wake-ups so far.
 */
static void play(struct fleet *fleet, struct job *job, const char *words)
{
    for (const char *word = words; *word != '\0'; word += word[2] == ' ' ? 3 : 2) {
        const int member = word[0] - '0';

        if (word[0] == '=') {
            assert_int_equal(atomic_load(&fleet->wakes), word[1] - '0');
        } else if (word[1] == '+') {
            ASSERT_OK(job_start(fleet, job, member));
        } else if (word[1] == '.') {
            assert_member_waits(fleet, job, member);
        } else {
            step(fleet, job, member, word[1]);
        }
    }
}

/* A job of all ranks of a fleet of its own that goes so, and then to its end. */
static void play_whole(
        int size, tutti_collective collective, int64_t count, const char *words)
{
    const struct club all = club_of_all(size);
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, size);
    simple_job_make(&job, &all, 0, collective, count);
    play(&fleet, &job, words);
    job_finish(&fleet, &job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_nothing_is_touched_before_all_have_arrived)
{
    const struct club all = club_of_all(3);
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    simple_job_make(&job, &all, 0, TUTTI_ALLREDUCE, 9000);
    play(&fleet, &job, "0+ 1+ 0. 1. 0. 1. 0. 1.");
    assert_null(batch_touched(&job.batches[0]));
    assert_null(batch_touched(&job.batches[1]));
    job_finish(&fleet, &job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_rank_leaves_when_all_have_released_its_memory)
{
    play_whole(2, TUTTI_ALLREDUCE, 9000, "0+ 1+ 0* 1~ 0. 1! 0!");
}

TOGETHER_TEST(test_whom_a_collective_holds)
{
    play_whole(3, TUTTI_BROADCAST, 100, "1+ 1. 0+ 0~ 1! 0. 2+ 2! 0!");
    play_whole(3, TUTTI_GATHER, 50, "0+ 1+ 0~ 1~ 2+ 1~ 0! 1!");
    play_whole(3, TUTTI_SCATTER, 50, "1+ 1~ 0+ 0~ 1! 0~");
    play_whole(3, TUTTI_ALLTOALL, 50, "0+ 1+ 2+ 0~ 1~ 0~ 2! 0!");
}

TOGETHER_TEST(test_only_the_last_wakes_and_only_who_can_go_on)
{
    /* Members 0 and 1 have a slice. */
    play_whole(3, TUTTI_ALLREDUCE, 600, "0+ 1+ =0 2+ =2 1~ 2~ =2 0! =4");
}

BOTH_TEST(test_a_small_sum_takes_one_synchronisation)
{
    play_whole(3, TUTTI_ALLREDUCE, 100, "0+ 1+ 0. =0 2+ =2 0! 1! 2!");
}

BOTH_TEST(test_operands_stay_until_all_have_read_them)
{
    const struct club all = club_of_all(2);
    struct job jobs[OP_INFLIGHT_MAX + 1];
    struct job *last = &jobs[OP_INFLIGHT_MAX];
    struct fleet fleet;

    fleet_open(&fleet, 2);
    for (int i = 0; i <= OP_INFLIGHT_MAX; i++) {
        simple_job_make(
                &jobs[i], &all, (uint64_t)i, TUTTI_ALLREDUCE, 10 + 300 * (i % 2));
    }
    for (int i = 0; i < OP_INFLIGHT_MAX; i++) {
        play(&fleet, &jobs[i], "0+ 1+ 0!");
    }

    /* Rank 0 goes on in the slot of job 0, whose sum rank 1 has yet to make. */
    play(&fleet, last, "0+ 0.");

    /* It sleeps until then. */
    atomic_store(&fleet.woken[0], false);
    for (int i = 0; i < OP_INFLIGHT_MAX; i++) {
        play(&fleet, &jobs[i], "1!");
        assert_true(atomic_load(&fleet.woken[0]));
    }
    job_finish(&fleet, last);
    fleet_close(&fleet);
}

/* Ranks that are far apart wait for each other to read what they gave. */
BOTH_TEST(test_many_small_sums_in_flight)
{
    enum {
        SUMS = 12 * OP_INFLIGHT_MAX
    };

    for (uint64_t seed = 1; seed <= 8; seed++) {
        const struct club all = club_of_all(seed % 2 == 0 ? 2 : 3);
        struct program program = program_new(SUMS);
        struct job *jobs = program.jobs;
        struct fleet fleet;

        fleet_open(&fleet, all.size);
        for (size_t i = 0; i < program.count; i++) {
            simple_job_make(&jobs[i], &all, i, TUTTI_ALLREDUCE, 1 + (int64_t)i % 50);
        }

        run_scheduled(&fleet, &program, seed);
        fleet_close(&fleet);
    }
}

BOTH_TEST(test_a_set_is_not_taken_for_a_former_one_of_its_index)
{
    const struct club former = { .id = 1, .index = 3, .size = 2, .ranks = { 0, 1 } };
    const struct club later = { .id = 2, .index = 3, .size = 2, .ranks = { 0, 1 } };
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 2);
    for (uint64_t sequence = 0; sequence < 3; sequence++) {
        simple_job_make(&job, &former, sequence, TUTTI_ALLREDUCE, 2000);
        job_finish(&fleet, &job);
    }
    simple_job_make(&job, &later, 0, TUTTI_ALLREDUCE, 2000);
    play(&fleet, &job, "0+ 0.");
    job_finish(&fleet, &job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_step_does_a_bounded_piece_of_work)
{
    /* a slice of 32 KiB; four chunks of 8 KiB, for two operands, in a step */
    play_whole(2, TUTTI_ALLREDUCE, 16384, "0+ 1+ 0~ 0~ 0.");
}

/* A sum of several runs. */
static void runs_make(struct job *job, const struct club *club, uint64_t sequence)
{
    *job = (struct job){ .play = { .club = club, .sequence = sequence },
        .backend = &op_shm,
        .order = { .operation = { .collective = TUTTI_ALLREDUCE,
                           .pattern.dtype = TUTTI_FLOAT32 },
                .run_count = 5,
                .counts = { 1000, 2000, 300, 0, 50 + (int64_t)sequence % 2 } } };
    job_make(job);
}

TOGETHER_TEST(test_a_start_without_memory_has_begun_nothing)
{
    const struct club all = club_of_all(2);
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 2);
    runs_make(&job, &all, 0);
    play(&fleet, &job, "0+");
    mem_fail_at(1);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_ERR_NO_MEMORY);
    mem_fail_at(0);
    play(&fleet, &job, "0.");
    job_finish(&fleet, &job);
    fleet_close(&fleet);
}

BOTH_TEST(test_the_steady_state_allocates_nothing)
{
    enum {
        WARM = OP_INFLIGHT_MAX,
        ALL = 2 * OP_INFLIGHT_MAX
    };
    const struct club all = club_of_all(3);
    struct job jobs[ALL];
    uint64_t allocations = 0;
    struct fleet fleet;

    fleet_open(&fleet, 3);
    for (uint64_t i = 0; i < ALL; i++) {
        runs_make(&jobs[i], &all, i);
    }
    for (size_t i = 0; i < ALL; i++) {
        allocations = i == WARM ? mem_alloc_count() : allocations;
        job_finish(&fleet, &jobs[i]);
    }
    assert_int_equal(mem_alloc_count(), allocations);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_opening_without_memory_leaves_nothing_behind)
{
    struct op_env env = { .world_size = 2 };
    struct shm_domain *domain;
    void *opened = NULL;

    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_null(shm_domain_create(2));
    }
    mem_fail_at(0);
    domain = shm_domain_create(2);
    assert_non_null(domain);
    env.native = domain;
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_at(n);
        assert_int_equal(op_shm.open(&env, &opened), TUTTI_ERR_NO_MEMORY);
        assert_null(opened);
    }
    mem_fail_at(0);
    shm_domain_destroy(domain);
}

BOTH_TEST(test_it_accepts_what_it_can_do)
{
    const int ranks[] = { 0, 1 };
    struct op_set set = { .size = 2, .world_ranks = ranks };
    struct fleet fleet;
    struct op_batch batch = {
        .set = &set, .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_BOOL, .op = TUTTI_MIN
    };

    fleet_open(&fleet, 2);
    assert_true(op_shm.accepts(fleet.state[0], &batch));
    batch.op = TUTTI_SUM;
    assert_false(op_shm.accepts(fleet.state[0], &batch));
    batch.collective = TUTTI_BROADCAST;
    assert_true(op_shm.accepts(fleet.state[0], &batch));
    batch.collective = TUTTI_BARRIER;
    assert_false(op_shm.accepts(fleet.state[0], &batch));
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_failure_to_place_ends_the_batch)
{
    const struct club all = club_of_all(2);
    struct fleet fleet;
    struct job job;
    bool moved = false;

    fleet_open(&fleet, 2);
    simple_job_make(&job, &all, 0, TUTTI_ALLGATHER, 50);
    job.batches[1].fail_place_at = 1;
    play(&fleet, &job, "0+ 1+");
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_ERR_NO_MEMORY);
    assert_true(op_shm.cancel(fleet.state[1], job.batches[1].task));
    play(&fleet, &job, "0."); /* the memory of the other may be gone */
    assert_true(op_shm.cancel(fleet.state[0], job.batches[0].task));
    job_free(&job);
    fleet_close(&fleet);
}
