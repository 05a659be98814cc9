/*
 * The shared-memory backend: ranks under a seeded schedule and as threads (fleet.h).
 *
 * Member m of a set contributes m + 1 times a small integer pattern, so a sum is exact
 * and shows a member that was missed or counted twice.
 *
 * Most tests run twice: with ranks that address all of each other's memory, and apart,
 * with ranks that address each other's reservations. Then each input and output is at
 * random in the reservation of its rank or in private memory.
 */
#include "base/mem.h"
#include "test/unit/ops/fleet.h"
#include "test/unit/unit.h"

enum {
    RUNS_MAX = 5,
    JOBS_MAX = 400,
    GUARD = 16 /* elements before and behind each buffer */
};

static const float guard_value = -54321;

/** One member's part in a job. */
struct part {
    struct op_set set;
    struct op_batch batch;
    struct op_run runs[RUNS_MAX];
    void *task;
    float *inputs[RUNS_MAX]; /* with guards; owned                  */
    float *outputs[RUNS_MAX]; /* likewise; the inputs when in place  */
};

/** A batch on all members of a club. */
struct job {
    struct play play;
    tutti_collective collective;
    int root;
    bool in_place;
    size_t run_count;
    size_t counts[RUNS_MAX];
    struct part parts[FLEET_RANKS_MAX];
};

static float pattern(const struct job *job, size_t run, size_t element)
{
    return (float)(1 + (element + 7 * run + 13 * play_number(&job->play)) % 97);
}

/* Where a buffer lies: any mixture, but the same whenever it is asked. */
static bool is_reserved(const struct job *job, int member, size_t run, bool is_output)
{
    uint64_t seed =
            play_number(&job->play) * 64 + (uint64_t)member * 16 + run * 2 + is_output;

    return fleet_reservations() != NULL && next_random(&seed) % 2 == 0;
}

static float *buffer_new(
        const struct job *job, int member, size_t run, bool is_output, float value)
{
    size_t count = job->counts[run];
    size_t bytes = (count + 2 * (size_t)GUARD) * sizeof(float);
    int rank = job->play.club->ranks[member];
    float *memory = is_reserved(job, member, run, is_output)
            ? shm_domain_alloc(fleet_reservations(), rank, bytes)
            : mem_alloc(bytes);

    assert_non_null(memory);
    for (size_t i = 0; i < count + 2 * (size_t)GUARD; i++) {
        bool inside = i >= GUARD && i < GUARD + count;

        memory[i] = inside ? value : guard_value;
    }
    return memory;
}

static void buffer_free(
        const struct job *job, int member, size_t run, bool is_output, float *memory)
{
    if (is_reserved(job, member, run, is_output)) {
        shm_domain_free(fleet_reservations(), job->play.club->ranks[member], memory);
    } else {
        mem_free(memory);
    }
}

static void part_init(struct job *job, int member)
{
    const struct club *club = job->play.club;
    struct part *part = &job->parts[member];

    job->play.states[member] = PART_NEW;
    part->set = (struct op_set){ .id = club->id,
        .index = club->index,
        .rank = member,
        .size = club->size,
        .world_ranks = club->ranks };
    part->batch = (struct op_batch){ .set = &part->set,
        .sequence = job->play.sequence,
        .lane = job->play.lane,
        .collective = job->collective,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .divisor = club->size,
        .prescale = 1,
        .postscale = 1,
        .root = job->root,
        .runs = part->runs,
        .run_count = job->run_count };
    part->task = mem_calloc(1, op_shm.task_bytes);
    assert_non_null(part->task);
    for (size_t run = 0; run < job->run_count; run++) {
        size_t count = job->counts[run];

        part->inputs[run] = buffer_new(job, member, run, false, 0);
        part->outputs[run] = job->in_place ? part->inputs[run]
                                           : buffer_new(job, member, run, true, -1);
        for (size_t i = 0; i < count; i++) {
            part->inputs[run][GUARD + i] = (float)(member + 1) * pattern(job, run, i);
        }
        part->runs[run] = (struct op_run){ .input = part->inputs[run] + GUARD,
            .output = part->outputs[run] + GUARD,
            .count = count };
        part->batch.count += count;
    }
}

/* Makes the parts of a job whose other fields are filled in. */
static void job_init(struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        part_init(job, member);
    }
}

static void part_free(const struct job *job, int member)
{
    const struct part *part = &job->parts[member];

    for (size_t run = 0; run < job->run_count; run++) {
        buffer_free(job, member, run, false, part->inputs[run]);
        if (!job->in_place) {
            buffer_free(job, member, run, true, part->outputs[run]);
        }
    }
    mem_free(part->task);
}

static void job_free(const struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        part_free(job, member);
    }
}

static tutti_status job_start(struct fleet *fleet, void *user, int member)
{
    struct job *job = user;
    struct part *part = &job->parts[member];
    void *state = fleet->state[job->play.club->ranks[member]];
    tutti_status status;

    assert_true(op_shm.accepts(state, &part->batch));
    status = op_shm.start(state, part->task, &part->batch);
    if (status == TUTTI_OK) {
        job->play.states[member] = PART_RUNNING;
    }
    return status;
}

static tutti_status job_step(struct fleet *fleet, void *user, int member, bool *moved)
{
    struct job *job = user;
    struct part *part = &job->parts[member];
    void *state = fleet->state[job->play.club->ranks[member]];
    tutti_status status;

    *moved = false; /* steps only ever set it */
    status = op_shm.step(state, part->task, moved);

    if (status == TUTTI_OK) {
        assert_true(*moved);
        job->play.states[member] = PART_DONE;
    }
    return status;
}

/* Steps a member that cannot go on. */
static void assert_member_waits(struct fleet *fleet, struct job *job, int member)
{
    bool moved = true;

    assert_int_equal(job_step(fleet, job, member, &moved), TUTTI_AGAIN);
    assert_false(moved);
}

/* True when a buffer of a run holds the pattern times a factor between its guards. */
static bool holds(const struct job *job, size_t run, const float *buffer, int factor)
{
    size_t count = job->counts[run];

    for (size_t i = 0; i < GUARD; i++) {
        if (buffer[i] != guard_value || buffer[GUARD + count + i] != guard_value) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (buffer[GUARD + i] != (float)factor * pattern(job, run, i)) {
            return false;
        }
    }
    return true;
}

/* True when a member's output is what it must be at the end. */
static bool has_result(const struct job *job, int member)
{
    bool is_broadcast = job->collective == TUTTI_BROADCAST;
    int size = job->play.club->size;
    int factor = is_broadcast ? job->root + 1 : size * (size + 1) / 2;

    if (is_broadcast && member == job->root && !job->in_place) {
        return true; /* the root's output is not written */
    }
    for (size_t run = 0; run < job->run_count; run++) {
        if (!holds(job, run, job->parts[member].outputs[run], factor)) {
            return false;
        }
    }
    return true;
}

/* True when a member's inputs are as they were, unless in place. */
static bool has_inputs(const struct job *job, int member)
{
    for (size_t run = 0; run < job->run_count && !job->in_place; run++) {
        if (!holds(job, run, job->parts[member].inputs[run], member + 1)) {
            return false;
        }
    }
    return true;
}

static void job_check(const struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        assert_int_equal(job->play.states[member], PART_DONE);
        assert_true(has_result(job, member));
        assert_true(has_inputs(job, member));
    }
}

/* The rank goes on at once when its part is over: its buffers are final then. */
static tutti_status job_step_checked(
        struct fleet *fleet, void *user, int member, bool *moved)
{
    const struct job *job = user;
    const tutti_status status = job_step(fleet, user, member, moved);

    assert_true(job->play.states[member] != PART_DONE || has_result(job, member));
    return status;
}

static struct program program_new(size_t count)
{
    struct program program = { .count = count,
        .job_size = sizeof(struct job),
        .start = job_start,
        .step = job_step_checked };

    program.jobs = mem_calloc(count, sizeof(struct job));
    assert_non_null(program.jobs);
    return program;
}

static void program_check_and_free(const struct program *program)
{
    struct job *jobs = program->jobs;

    for (size_t i = 0; i < program->count; i++) {
        job_check(&jobs[i]);
        job_free(&jobs[i]);
    }
    mem_free(jobs);
}

/* Random jobs in random lanes of random clubs, those of each lane numbered from 0. */
static struct program program_random(
        const struct club *clubs, size_t club_count, uint32_t lanes, uint64_t seed)
{
    struct program program = program_new(JOBS_MAX);
    struct job *jobs = program.jobs;
    uint64_t sequences[4][OP_LANES] = { 0 };
    uint64_t random = seed;

    program.last_lane = lanes - 1;
    for (size_t i = 0; i < program.count; i++) {
        struct job *job = &jobs[i];
        size_t club = next_random(&random) % club_count;

        job->play.club = &clubs[club];
        job->play.lane = (uint32_t)(next_random(&random) % lanes);
        job->play.sequence = sequences[club][job->play.lane]++;
        job->collective =
                next_random(&random) % 4 == 0 ? TUTTI_BROADCAST : TUTTI_ALLREDUCE;
        job->root = (int)(next_random(&random) % (uint64_t)job->play.club->size);
        job->in_place = next_random(&random) % 2 == 0;
        job->run_count = 1 + next_random(&random) % RUNS_MAX;
        for (size_t run = 0; run < job->run_count; run++) {
            size_t most = next_random(&random) % 2 == 0 ? 20 : 3000;

            job->counts[run] =
                    run == 0 ? 1 : 0; /* a batch is not empty, a run may be */
            job->counts[run] += next_random(&random) % most;
        }
        job_init(job);
    }
    return program;
}

BOTH_TEST(test_sums_are_exact_for_every_size)
{
    static const int sizes[] = { 1, 2, 3, 5, 7 };
    static const size_t counts[] = { 1, 15, 16, 17, 511, 513, 1025, 9000, 50001 };

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct club all = club_of_all(sizes[s]);
        struct program program = program_new(sizeof counts / sizeof counts[0]);
        struct job *jobs = program.jobs;
        struct fleet fleet;

        fleet_open(&fleet, sizes[s]);
        for (size_t i = 0; i < program.count; i++) {
            jobs[i] = (struct job){ .play = { .club = &all, .sequence = i },
                .collective = TUTTI_ALLREDUCE,
                .in_place = i % 2 == 0,
                .run_count = 1,
                .counts = { counts[i] } };
            job_init(&jobs[i]);
        }

        fleet_run_scheduled(&fleet, &program, s);

        program_check_and_free(&program);
        fleet_close(&fleet);
    }
}

BOTH_TEST(test_overlapping_sets_and_many_batches_in_flight)
{
    const struct club clubs[] = {
        { .id = 0, .index = 0, .size = 5, .ranks = { 0, 1, 2, 3, 4 } },
        { .id = 9, .index = 3, .size = 3, .ranks = { 4, 0, 2 } },
        { .id = 4, .index = OP_SETS_MAX - 1, .size = 2, .ranks = { 2, 3 } },
    };

    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct program program;
        struct fleet fleet;

        fleet_open(&fleet, 5);
        program = program_random(clubs, 3, 1, seed);

        fleet_run_scheduled(&fleet, &program, seed);

        program_check_and_free(&program);
        fleet_close(&fleet);
    }
}

/* Two ranks start two lanes in opposite orders, several batches of each at once. */
BOTH_TEST(test_lanes_do_not_wait_for_each_other)
{
    const struct club all = club_of_all(2);

    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct program program;
        struct fleet fleet;

        fleet_open(&fleet, 2);
        program = program_random(&all, 1, 2, seed);

        fleet_run_scheduled(&fleet, &program, seed);

        program_check_and_free(&program);
        fleet_close(&fleet);
    }
}

BOTH_TEST(test_ranks_run_as_threads)
{
    const struct club clubs[] = {
        { .id = 1, .index = 1, .size = 4, .ranks = { 3, 2, 1, 0 } },
        { .id = 2, .index = 2, .size = 3, .ranks = { 0, 1, 3 } },
    };
    struct program program;
    struct fleet fleet;

    fleet_open(&fleet, 4);
    program = program_random(clubs, 2, OP_LANES, 77);
    fleet_run_threads(&fleet, &program);
    program_check_and_free(&program);
    fleet_close(&fleet);
}

/* A job of one run, in place, on a club. */
static void simple_job_init(struct job *job, const struct club *club, uint64_t sequence,
        tutti_collective collective, size_t count)
{
    *job = (struct job){ .play = { .club = club, .sequence = sequence },
        .collective = collective,
        .in_place = true,
        .run_count = 1,
        .counts = { count } };
    job_init(job);
}

/* Starts the members that have not, and steps all in turn to the end. */
static void run_to_end(struct fleet *fleet, struct job *job)
{
    int done = 0;

    for (int turn = 0; done < job->play.club->size; turn++) {
        int member = turn % job->play.club->size;
        bool moved = false;

        assert_true(turn < 1000);
        done = member == 0 ? 0 : done;
        if (job->play.states[member] == PART_NEW) {
            assert_int_equal(job_start(fleet, job, member), TUTTI_OK);
        }
        if (job->play.states[member] != PART_DONE) {
            (void)job_step_checked(fleet, job, member, &moved);
        }
        done += job->play.states[member] == PART_DONE;
    }
    job_check(job);
}

TOGETHER_TEST(test_nothing_is_touched_before_all_have_arrived)
{
    const struct club all = club_of_all(3);
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    simple_job_init(&job, &all, 0, TUTTI_ALLREDUCE, 9000);
    for (int member = 0; member < 2; member++) {
        assert_int_equal(job_start(&fleet, &job, member), TUTTI_OK);
    }

    for (int turn = 0; turn < 3; turn++) {
        assert_member_waits(&fleet, &job, 0);
        assert_member_waits(&fleet, &job, 1);
    }

    for (size_t i = 0; i < 9000; i++) {
        assert_true(job.parts[0].outputs[0][GUARD + i] == pattern(&job, 0, i));
        assert_true(job.parts[1].outputs[0][GUARD + i] == 2 * pattern(&job, 0, i));
    }
    run_to_end(&fleet, &job);
    job_free(&job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_rank_leaves_when_all_have_released_its_memory)
{
    const struct club all = club_of_all(2);
    bool moved = true;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 2);
    simple_job_init(&job, &all, 0, TUTTI_ALLREDUCE, 9000);
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);

    while (moved) {
        assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    }
    assert_member_waits(&fleet, &job, 0);
    while (job.play.states[1] != PART_DONE) {
        (void)job_step(&fleet, &job, 1, &moved);
    }

    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_OK);
    job_check(&job);
    job_free(&job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_broadcast_holds_only_its_root)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    simple_job_init(&job, &all, 0, TUTTI_BROADCAST, 100);

    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);
    assert_member_waits(&fleet, &job, 1);
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_OK);
    assert_member_waits(&fleet, &job, 0);
    assert_int_equal(job_start(&fleet, &job, 2), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 2, &moved), TUTTI_OK);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_OK);

    job_check(&job);
    job_free(&job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_only_the_last_wakes_and_only_who_can_go_on)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    /* Members 0 and 1 have a slice. */
    simple_job_init(&job, &all, 0, TUTTI_ALLREDUCE, 600);

    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);
    assert_int_equal(atomic_load(&fleet.wakes), 0);
    atomic_store(&fleet.woken[0], false);
    assert_int_equal(job_start(&fleet, &job, 2), TUTTI_OK);
    assert_int_equal(atomic_load(&fleet.wakes), 2);
    assert_true(atomic_load(&fleet.woken[0]));

    assert_int_equal(job_step(&fleet, &job, 1, &moved), TUTTI_AGAIN);
    assert_int_equal(job_step(&fleet, &job, 2, &moved), TUTTI_AGAIN);
    assert_int_equal(atomic_load(&fleet.wakes), 2);
    assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_OK);
    assert_int_equal(atomic_load(&fleet.wakes), 4);

    run_to_end(&fleet, &job);
    job_free(&job);
    fleet_close(&fleet);
}

BOTH_TEST(test_a_small_sum_takes_one_synchronisation)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 3);
    simple_job_init(&job, &all, 0, TUTTI_ALLREDUCE, 100);

    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);
    assert_member_waits(&fleet, &job, 0);
    assert_int_equal(atomic_load(&fleet.wakes), 0);
    assert_int_equal(job_start(&fleet, &job, 2), TUTTI_OK);
    assert_int_equal(atomic_load(&fleet.wakes), 2);
    for (int member = 0; member < 3; member++) {
        assert_int_equal(job_step(&fleet, &job, member, &moved), TUTTI_OK);
    }

    job_check(&job);
    job_free(&job);
    fleet_close(&fleet);
}

BOTH_TEST(test_operands_stay_until_all_have_read_them)
{
    const struct club all = club_of_all(2);
    bool moved = false;
    struct program program = program_new(OP_INFLIGHT_MAX + 1);
    struct job *jobs = program.jobs;
    struct fleet fleet;

    fleet_open(&fleet, 2);
    for (size_t i = 0; i < program.count; i++) {
        simple_job_init(&jobs[i], &all, i, TUTTI_ALLREDUCE, 10 + 300 * (i % 2));
    }
    for (size_t i = 0; i < OP_INFLIGHT_MAX; i++) {
        assert_int_equal(job_start(&fleet, &jobs[i], 0), TUTTI_OK);
        assert_int_equal(job_start(&fleet, &jobs[i], 1), TUTTI_OK);
        assert_int_equal(job_step(&fleet, &jobs[i], 0, &moved), TUTTI_OK);
    }

    /* Rank 0 goes on in the slot of job 0, whose sum rank 1 has yet to make. */
    assert_int_equal(job_start(&fleet, &jobs[OP_INFLIGHT_MAX], 0), TUTTI_OK);
    assert_member_waits(&fleet, &jobs[OP_INFLIGHT_MAX], 0);

    /* It sleeps until then. */
    atomic_store(&fleet.woken[0], false);
    for (size_t i = 0; i < OP_INFLIGHT_MAX; i++) {
        assert_int_equal(job_step(&fleet, &jobs[i], 1, &moved), TUTTI_OK);
        assert_true(atomic_load(&fleet.woken[0]));
        job_check(&jobs[i]);
    }
    run_to_end(&fleet, &jobs[OP_INFLIGHT_MAX]);
    program_check_and_free(&program);
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
            simple_job_init(&jobs[i], &all, i, TUTTI_ALLREDUCE, 1 + i % 50);
        }

        fleet_run_scheduled(&fleet, &program, seed);

        program_check_and_free(&program);
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
        simple_job_init(&job, &former, sequence, TUTTI_ALLREDUCE, 2000);
        run_to_end(&fleet, &job);
        job_free(&job);
    }

    simple_job_init(&job, &later, 0, TUTTI_ALLREDUCE, 2000);
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_member_waits(&fleet, &job, 0);
    run_to_end(&fleet, &job);

    job_free(&job);
    fleet_close(&fleet);
}

BOTH_TEST(test_scale_factors_and_averages_apply)
{
    const struct club all = club_of_all(2);
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 2);
    simple_job_init(&job, &all, 0, TUTTI_ALLREDUCE, 3000);
    for (int member = 0; member < 2; member++) {
        job.parts[member].batch.op = TUTTI_AVERAGE;
        job.parts[member].batch.prescale = 4;
        job.parts[member].batch.postscale = 0.5;
    }

    run_to_end(&fleet, &job); /* (4p + 8p) / 2 * 0.5 is p + 2p, the plain sum */

    job_free(&job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_step_does_a_bounded_piece_of_work)
{
    const struct club all = club_of_all(2);
    bool moved = true;
    int steps = -1;
    struct fleet fleet;
    struct job job;

    fleet_open(&fleet, 2);
    simple_job_init(&job, &all, 0, TUTTI_ALLREDUCE, 16384);
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_OK);

    for (; moved; steps++) {
        assert_int_equal(job_step(&fleet, &job, 0, &moved), TUTTI_AGAIN);
    }

    /* a slice of 32 KiB; four chunks of 8 KiB, for two operands, in a step */
    assert_int_equal(steps, 2);
    run_to_end(&fleet, &job);
    job_free(&job);
    fleet_close(&fleet);
}

TOGETHER_TEST(test_a_start_without_memory_has_begun_nothing)
{
    const struct club all = club_of_all(2);
    struct job job = { .play = { .club = &all },
        .collective = TUTTI_ALLREDUCE,
        .run_count = 2,
        .counts = { 1000, 5000 } };
    struct fleet fleet;

    fleet_open(&fleet, 2);
    job_init(&job);
    assert_int_equal(job_start(&fleet, &job, 0), TUTTI_OK);

    mem_fail_at(1);
    assert_int_equal(job_start(&fleet, &job, 1), TUTTI_ERR_NO_MEMORY);
    mem_fail_at(0);

    assert_member_waits(&fleet, &job, 0);
    run_to_end(&fleet, &job);
    job_free(&job);
    fleet_close(&fleet);
}

BOTH_TEST(test_the_steady_state_allocates_nothing)
{
    enum {
        WARM = OP_INFLIGHT_MAX,
        ALL = 2 * OP_INFLIGHT_MAX
    };
    const struct club all = club_of_all(3);
    struct program program = program_new(ALL);
    struct job *jobs = program.jobs;
    uint64_t allocations = 0;
    struct fleet fleet;

    fleet_open(&fleet, 3);
    for (size_t i = 0; i < ALL; i++) {
        jobs[i] = (struct job){ .play = { .club = &all, .sequence = i },
            .collective = TUTTI_ALLREDUCE,
            .run_count = RUNS_MAX,
            .counts = { 1000, 2000, 300, 0, 50 + i % 2 } };
        job_init(&jobs[i]);
    }

    for (size_t i = 0; i < ALL; i++) {
        allocations = i == WARM ? mem_alloc_count() : allocations;
        run_to_end(&fleet, &jobs[i]);
    }

    assert_int_equal(mem_alloc_count(), allocations);
    program_check_and_free(&program);
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
