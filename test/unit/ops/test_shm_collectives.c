/*
 * The collectives of the shared-memory backend but allreduce and broadcast (test_shm.c):
 * under a seeded schedule and as threads (fleet.h).
 *
 * Reductions are of all types, with inputs that differ by rank, and compared bit for bit
 * with reduce_tree(); of exchanges trade.h says what is right.
 *
 * Most tests run twice: with ranks that address all of each other's memory, and apart,
 * with ranks that address each other's reservations, in which every second run lies.
 */
#include <string.h>

#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "test/trade.h"
#include "test/unit/ops/fleet.h"
#include "test/unit/unit.h"

enum {
    RUNS_MAX = 4,
    JOBS_MAX = 240,
    GUARD = 16 /* bytes before and behind each buffer */
};

#define GUARD_VALUE 0xa5
#define UNTOUCHED_VALUE 0x5a

/** A member's memory of a REDUCE or REDUCESCATTER. */
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
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_reduce_op op;
    int root;
    bool in_place;
    bool sizes_known;
    size_t run_count;
    size_t counts[RUNS_MAX]; /* of a reduction */
    size_t most; /* of an exchange */
    struct op_set sets[FLEET_RANKS_MAX];
    struct trade trades[FLEET_RANKS_MAX];
    struct reduction reductions[FLEET_RANKS_MAX];
};

static const int rank_numbers[FLEET_RANKS_MAX] = { 0, 1, 2, 3, 4, 5, 6 };
static struct trade_store stores[FLEET_RANKS_MAX];

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

/* Where the parts of a member's exchanges lie; NULL: in private memory. */
static const struct trade_store *store_of(int rank)
{
    if (fleet_reservations() == NULL) {
        return NULL;
    }
    stores[rank] = (struct trade_store){ .alloc = reserved_alloc,
        .free = reserved_free,
        .user = (void *)(uintptr_t)&rank_numbers[rank] };
    return &stores[rank];
}

/* -------------------------------------------------------------- reductions */

/* Finite numbers of any type: small exponents, random fractions. */
static void fill_input(const struct job *job, size_t run, int member, uint8_t *to)
{
    size_t bytes = tutti_dtype_size(job->dtype);
    uint64_t random = (job->play.sequence * 16 + run) * 16 + (uint64_t)member;

    for (size_t i = 0; i < job->counts[run]; i++) {
        uint64_t bits = next_random(&random);
        float single = (float)(bits % 2001) / 7 - 100;
        double value = (double)(bits % 2000001) / 7 - 100;
        uint32_t bits32;

        memcpy(&bits32, &single, sizeof bits32);
        if (job->dtype == TUTTI_FLOAT16) {
            bits = 0x3000 + bits % 0x1000;
        } else if (job->dtype == TUTTI_BFLOAT16) {
            bits = bits32 >> 16;
        } else if (job->dtype == TUTTI_FLOAT32) {
            bits = bits32;
        } else if (job->dtype == TUTTI_FLOAT64) {
            memcpy(&bits, &value, sizeof bits);
        } else if (job->dtype == TUTTI_BOOL) {
            bits &= 1;
        }
        memcpy(to + i * bytes, &bits, bytes);
    }
}

static uint8_t *painted(uint8_t *memory, size_t bytes)
{
    assert_non_null(memory);
    memset(memory, GUARD_VALUE, bytes + (size_t)2 * GUARD);
    memset(memory + GUARD, UNTOUCHED_VALUE, bytes);
    return memory;
}

static uint8_t *buffer_new(size_t bytes)
{
    return painted(mem_alloc(bytes + (size_t)2 * GUARD), bytes);
}

/* Where a buffer of a reduction lies: any mixture, the same whenever it is asked. */
static bool is_reserved(const struct job *job, int member, size_t run, bool is_output)
{
    uint64_t seed =
            job->play.sequence * 64 + (uint64_t)member * 16 + run * 2 + is_output;

    return fleet_reservations() != NULL && next_random(&seed) % 2 == 0;
}

static uint8_t *place_new(const struct job *job, int member, size_t run, bool is_output)
{
    size_t bytes = job->counts[run] * tutti_dtype_size(job->dtype);

    if (!is_reserved(job, member, run, is_output)) {
        return buffer_new(bytes);
    }
    return painted(shm_domain_alloc(fleet_reservations(), job->play.club->ranks[member],
                           bytes + (size_t)2 * GUARD),
            bytes);
}

static void place_free(
        const struct job *job, int member, size_t run, bool is_output, uint8_t *memory)
{
    if (is_reserved(job, member, run, is_output)) {
        shm_domain_free(fleet_reservations(), job->play.club->ranks[member], memory);
    } else {
        mem_free(memory);
    }
}

/* Uneven parts, some of them empty; the same on all members. */
static void make_parts(const struct job *job, size_t run, struct op_part *parts)
{
    size_t bytes = tutti_dtype_size(job->dtype);
    uint64_t random = job->play.sequence * 8 + run;
    size_t begin = 0;

    for (int r = 0; r < job->play.club->size; r++) {
        size_t rest = job->counts[run] - begin;
        size_t length = next_random(&random) % 3 == 0
                ? 0
                : (size_t)(next_random(&random) % (rest + 1));

        length = r == job->play.club->size - 1 ? rest : length;
        parts[r] = (struct op_part){ .offset = begin * bytes, .bytes = length * bytes };
        begin += length;
    }
}

static void reduction_run_make(struct job *job, int member, size_t run)
{
    struct reduction *reduction = &job->reductions[member];
    uint8_t *input = place_new(job, member, run, false);
    uint8_t *output = job->in_place ? input : place_new(job, member, run, true);

    fill_input(job, run, member, input + GUARD);
    make_parts(job, run, reduction->parts[run]);
    reduction->inputs[run] = input;
    reduction->outputs[run] = output;
    reduction->runs[run] = (struct op_run){
        .input = input + GUARD, .output = output + GUARD, .count = job->counts[run]
    };
    reduction->batch.count += job->counts[run];
    if (job->collective == TUTTI_REDUCESCATTER) {
        reduction->runs[run].sends = reduction->parts[run];
        if (job->in_place) {
            reduction->runs[run].output =
                    input + GUARD + reduction->parts[run][member].offset;
        }
    } else if (member != job->root) {
        reduction->runs[run].output = NULL;
    }
}

static void reduction_make(struct job *job, int member)
{
    struct reduction *reduction = &job->reductions[member];

    reduction->batch = (struct op_batch){ .set = &job->sets[member],
        .sequence = job->play.sequence,
        .collective = job->collective,
        .dtype = job->dtype,
        .op = job->op,
        .divisor = job->play.club->size,
        .prescale = 1,
        .postscale = 1,
        .root = job->root,
        .runs = reduction->runs,
        .run_count = job->run_count };
    reduction->task = mem_calloc(1, op_shm.task_bytes);
    assert_non_null(reduction->task);
    for (size_t run = 0; run < job->run_count; run++) {
        reduction_run_make(job, member, run);
    }
}

/* The whole run, reduced. */
static uint8_t *reduced_new(const struct job *job, size_t run)
{
    const struct reduce_spec spec = { .dtype = job->dtype,
        .op = job->op,
        .divisor = job->play.club->size,
        .prescale = 1,
        .postscale = 1 };
    size_t bytes = job->counts[run] * tutti_dtype_size(job->dtype);
    uint8_t *inputs[FLEET_RANKS_MAX];
    const void *operands[FLEET_RANKS_MAX];
    uint8_t *reduced = buffer_new(bytes);
    void *output = reduced + GUARD;

    for (int member = 0; member < job->play.club->size; member++) {
        inputs[member] = buffer_new(bytes);
        fill_input(job, run, member, inputs[member] + GUARD);
        operands[member] = inputs[member] + GUARD;
    }
    reduce_tree(&spec, operands, job->play.club->size, &output, 1, job->counts[run]);
    for (int member = 0; member < job->play.club->size; member++) {
        mem_free(inputs[member]);
    }
    return reduced;
}

static void reduction_run_check_and_free(const struct job *job, int member, size_t run)
{
    const struct reduction *reduction = &job->reductions[member];
    size_t bytes = job->counts[run] * tutti_dtype_size(job->dtype);
    uint8_t *reduced = reduced_new(job, run);
    uint8_t *expected = buffer_new(bytes);
    struct op_part part = { .bytes = member == job->root ? bytes : 0 };
    size_t at = 0;

    if (job->collective == TUTTI_REDUCESCATTER) {
        part = reduction->parts[run][member];
        at = job->in_place ? part.offset : 0;
    }
    if (job->in_place) {
        fill_input(job, run, member, expected + GUARD);
    }
    memcpy(expected + GUARD + at, reduced + GUARD + part.offset, part.bytes);
    assert_memory_equal(reduction->outputs[run], expected, bytes + (size_t)2 * GUARD);
    if (!job->in_place) {
        fill_input(job, run, member, expected + GUARD);
        assert_memory_equal(
                reduction->inputs[run], expected, bytes + (size_t)2 * GUARD);
        place_free(job, member, run, true, reduction->outputs[run]);
    }
    place_free(job, member, run, false, reduction->inputs[run]);
    mem_free(expected);
    mem_free(reduced);
}

/* -------------------------------------------------------------------- jobs */

static void job_make(struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        struct op_set *set = &job->sets[member];

        *set = (struct op_set){ .id = job->play.club->id,
            .index = job->play.club->index,
            .rank = member,
            .size = job->play.club->size,
            .world_ranks = job->play.club->ranks };
        job->play.states[member] = PART_NEW;
        if (op_is_exchange(job->collective)) {
            const struct trade_order order = { .set = set,
                .sequence = job->play.sequence,
                .collective = job->collective,
                .root = job->root,
                .run_count = job->run_count,
                .most = job->most,
                .sizes_known = job->sizes_known,
                .in_place = job->in_place && job->sizes_known,
                .store = store_of(job->play.club->ranks[member]) };

            trade_make(&job->trades[member], &order, op_shm.task_bytes);
        } else {
            reduction_make(job, member);
        }
    }
}

/* A member left: what it has must be right, and nobody may touch it from now on. */
static void member_leaves(struct job *job, int member)
{
    job->play.states[member] = PART_DONE;
    if (op_is_exchange(job->collective)) {
        const char *error = trade_error(&job->trades[member]);

        if (error != NULL) {
            fail_msg("member %d, batch %d, collective %d: %s", member,
                    (int)job->play.sequence, (int)job->collective, error);
        }
        trade_free(&job->trades[member]);
        return;
    }
    for (size_t run = 0; run < job->run_count; run++) {
        reduction_run_check_and_free(job, member, run);
    }
    mem_free(job->reductions[member].task);
}

static void assert_all_left(const struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        assert_int_equal(job->play.states[member], PART_DONE);
    }
}

static tutti_status job_start(struct fleet *fleet, void *user, int member)
{
    struct job *job = user;
    void *state = fleet->state[job->play.club->ranks[member]];
    bool trades = op_is_exchange(job->collective);
    const struct op_batch *batch =
            trades ? &job->trades[member].batch : &job->reductions[member].batch;
    void *task = trades ? job->trades[member].task : job->reductions[member].task;

    assert_true(op_shm.accepts(state, batch));
    job->play.states[member] = PART_RUNNING;
    return op_shm.start(state, task, batch);
}

static tutti_status job_step(struct fleet *fleet, void *user, int member, bool *moved)
{
    struct job *job = user;
    void *state = fleet->state[job->play.club->ranks[member]];
    void *task = op_is_exchange(job->collective) ? job->trades[member].task
                                                 : job->reductions[member].task;
    tutti_status status = op_shm.step(state, task, moved);

    if (status == TUTTI_OK) {
        assert_true(*moved);
        member_leaves(job, member);
    }
    return status;
}

static struct program program_new(size_t count)
{
    struct program program = { .count = count,
        .job_size = sizeof(struct job),
        .start = job_start,
        .step = job_step };

    program.jobs = mem_calloc(count, sizeof(struct job));
    assert_non_null(program.jobs);
    return program;
}

static void program_end(const struct program *program)
{
    struct job *jobs = program->jobs;

    for (size_t i = 0; i < program->count; i++) {
        assert_all_left(&jobs[i]);
    }
    mem_free(jobs);
}

static void run_scheduled(
        struct fleet *fleet, const struct program *program, uint64_t seed)
{
    fleet_run_scheduled(fleet, program, seed);
    program_end(program);
}

static void job_randomise(struct job *job, uint64_t *random)
{
    static const tutti_collective collectives[] = { TUTTI_REDUCE, TUTTI_REDUCESCATTER,
        TUTTI_ALLGATHER, TUTTI_ALLTOALL, TUTTI_GATHER, TUTTI_SCATTER };

    job->collective = collectives[next_random(random) % 6];
    do {
        job->dtype = (tutti_dtype)(next_random(random) % (TUTTI_BOOL + 1));
        job->op = (tutti_reduce_op)(next_random(random) % (TUTTI_PRODUCT + 1));
    } while (!reduce_is_supported(job->dtype, job->op));
    job->root = (int)(next_random(random) % (uint64_t)job->play.club->size);
    job->in_place = next_random(random) % 2 == 0;
    job->sizes_known = next_random(random) % 2 == 0;
    job->run_count = 1 + next_random(random) % RUNS_MAX;
    job->most = next_random(random) % 2 == 0 ? 50 : 20000;
    for (size_t run = 0; run < job->run_count; run++) {
        job->counts[run] = next_random(random) % (job->most == 50 ? 20 : 3000);
    }
    job->counts[0]++; /* a batch is not empty, a run may be */
}

/*
 * Random jobs on random clubs. Clubs of one id are one set with and without ranks that
 * have joined: their jobs are numbered together.
 */
static struct program program_random(
        const struct club *clubs, size_t club_count, size_t job_count, uint64_t seed)
{
    struct program program = program_new(job_count);
    struct job *jobs = program.jobs;
    uint64_t sequences[16] = { 0 };
    uint64_t random = seed;

    for (size_t i = 0; i < job_count; i++) {
        struct job *job = &jobs[i];

        job->play.club = &clubs[next_random(&random) % club_count];
        job->play.sequence = sequences[job->play.club->id]++;
        job_randomise(job, &random);
        job_make(job);
    }
    return program;
}

static void test_sets_of_every_size(void **state)
{
    (void)state;
    for (int size = 1; size <= FLEET_RANKS_MAX; size++) {
        struct club all = club_of_all(size);
        struct program program;
        struct fleet fleet;

        fleet_open(&fleet, size);
        program = program_random(&all, 1, JOBS_MAX, (uint64_t)size);
        run_scheduled(&fleet, &program, (uint64_t)size);
        fleet_close(&fleet);
    }
}

static void test_overlapping_sets(void **state)
{
    const struct club clubs[] = {
        { .id = 0, .index = 0, .size = 5, .ranks = { 0, 1, 2, 3, 4 } },
        { .id = 9, .index = 3, .size = 3, .ranks = { 4, 0, 2 } },
        { .id = 4, .index = OP_SETS_MAX - 1, .size = 2, .ranks = { 2, 3 } },
    };

    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct program program;
        struct fleet fleet;

        fleet_open(&fleet, 5);
        program = program_random(clubs, 3, JOBS_MAX, seed);
        run_scheduled(&fleet, &program, seed);
        fleet_close(&fleet);
    }
}

/* A rank misses batches 5 to 100 of a set and then takes part again, and once more. */
static void test_a_rank_may_be_left_out(void **state)
{
    const struct club all = { .id = 3, .index = 2, .size = 3, .ranks = { 0, 1, 2 } };
    const struct club fewer = { .id = 3, .index = 2, .size = 2, .ranks = { 0, 2 } };

    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct program program = program_new(280);
        struct job *jobs = program.jobs;
        uint64_t random = seed;
        struct fleet fleet;

        fleet_open(&fleet, 3);
        for (size_t i = 0; i < program.count; i++) {
            struct job *job = &jobs[i];
            bool left_out = (i >= 5 && i <= 100) || (i >= 130 && i < 260);

            job->play.club = left_out ? &fewer : &all;
            job->play.sequence = i;
            job_randomise(job, &random);
            job_make(job);
        }
        run_scheduled(&fleet, &program, seed);
        fleet_close(&fleet);
    }
}

static void test_ranks_run_as_threads(void **state)
{
    const struct club clubs[] = {
        { .id = 1, .index = 1, .size = 4, .ranks = { 3, 2, 1, 0 } },
        { .id = 1, .index = 1, .size = 3, .ranks = { 3, 1, 0 } },
        { .id = 2, .index = 2, .size = 3, .ranks = { 0, 1, 3 } },
    };
    struct program program;
    struct fleet fleet;

    (void)state;
    fleet_open(&fleet, 4);
    program = program_random(clubs, 3, JOBS_MAX, 77);
    fleet_run_threads(&fleet, &program);
    program_end(&program);
    fleet_close(&fleet);
}

/* One job of few bytes on three ranks. */
static void small_job_make(
        struct job *job, const struct club *club, tutti_collective collective)
{
    *job = (struct job){ .play = { .club = club },
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

static void test_a_gather_holds_the_senders_until_the_root_has_copied(void **state)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    (void)state;
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

static void test_a_scatter_holds_only_its_root(void **state)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    (void)state;
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

static void test_an_alltoall_holds_all_until_all_have_copied(void **state)
{
    const struct club all = club_of_all(3);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    (void)state;
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

static void test_a_failure_to_place_ends_the_batch(void **state)
{
    const struct club all = club_of_all(2);
    bool moved = false;
    struct fleet fleet;
    struct job job;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest both[] = {
        cmocka_unit_test(test_sets_of_every_size),
        cmocka_unit_test(test_overlapping_sets),
        cmocka_unit_test(test_a_rank_may_be_left_out),
        cmocka_unit_test(test_ranks_run_as_threads),
    };
    const struct CMUnitTest addressing_everything[] = {
        cmocka_unit_test(test_a_gather_holds_the_senders_until_the_root_has_copied),
        cmocka_unit_test(test_a_scatter_holds_only_its_root),
        cmocka_unit_test(test_an_alltoall_holds_all_until_all_have_copied),
        cmocka_unit_test(test_a_failure_to_place_ends_the_batch),
    };

    return cmocka_run_group_tests(both, fleet_addresses_everything, NULL) +
            cmocka_run_group_tests(
                    addressing_everything, fleet_addresses_everything, NULL) +
            cmocka_run_group_tests(both, fleet_is_apart, NULL);
}
