/*
 * Making, running and checking jobs.
 */
#include "test/unit/ops/jobs.h"

#include <string.h>

#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "test/unit/unit.h"

#define GUARD ((size_t)16) /* bytes before and behind each buffer */
#define GUARD_VALUE 0xa5
#define UNTOUCHED_VALUE 0x5a

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

const struct trade_store *store_of(int rank)
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
    uint64_t random = (play_number(&job->play) * 16 + run) * 16 + (uint64_t)member;

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
    memset(memory, GUARD_VALUE, bytes + 2 * GUARD);
    memset(memory + GUARD, UNTOUCHED_VALUE, bytes);
    return memory;
}

static uint8_t *buffer_new(size_t bytes)
{
    return painted(mem_alloc(bytes + 2 * GUARD), bytes);
}

/* Where a buffer of a reduction lies: any mixture, the same whenever it is asked. */
static bool is_reserved(const struct job *job, int member, size_t run, bool is_output)
{
    uint64_t seed =
            play_number(&job->play) * 64 + (uint64_t)member * 16 + run * 2 + is_output;

    return fleet_reservations() != NULL && next_random(&seed) % 2 == 0;
}

static uint8_t *place_new(const struct job *job, int member, size_t run, bool is_output)
{
    size_t bytes = job->counts[run] * tutti_dtype_size(job->dtype);

    if (!is_reserved(job, member, run, is_output)) {
        return buffer_new(bytes);
    }
    return painted(shm_domain_alloc(fleet_reservations(), job->play.club->ranks[member],
                           bytes + 2 * GUARD),
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
    uint64_t random = play_number(&job->play) * 8 + run;
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
    } else if (job->collective == TUTTI_REDUCE && member != job->root) {
        reduction->runs[run].output = NULL;
    }
}

static void reduction_make(struct job *job, int member)
{
    struct reduction *reduction = &job->reductions[member];

    reduction->batch = (struct op_batch){ .set = &job->sets[member],
        .sequence = job->play.sequence,
        .lane = job->play.lane,
        .collective = job->collective,
        .dtype = job->dtype,
        .op = job->op,
        .divisor = job->play.club->size,
        .prescale = job->prescale,
        .postscale = job->postscale,
        .root = job->root,
        .runs = reduction->runs,
        .run_count = job->run_count };
    reduction->task = mem_calloc(1, job->backend->task_bytes);
    assert_non_null(reduction->task);
    for (size_t run = 0; run < job->run_count; run++) {
        reduction_run_make(job, member, run);
    }
}

void job_reduce_flat(
        const struct job *job, const void *const *operands, void *output, size_t count)
{
    const struct reduce_spec spec = { .dtype = job->dtype,
        .op = job->op,
        .divisor = job->play.club->size,
        .prescale = job->prescale,
        .postscale = job->postscale };

    reduce_tree(&spec, operands, job->play.club->size, &output, 1, count);
}

/* The whole run: reduced, or the root's. */
static uint8_t *result_new(const struct job *job, size_t run)
{
    size_t bytes = job->counts[run] * tutti_dtype_size(job->dtype);
    uint8_t *inputs[FLEET_RANKS_MAX];
    const void *operands[FLEET_RANKS_MAX];
    uint8_t *result = buffer_new(bytes);

    if (job->collective == TUTTI_BROADCAST) {
        fill_input(job, run, job->root, result + GUARD);
        return result;
    }
    for (int member = 0; member < job->play.club->size; member++) {
        inputs[member] = buffer_new(bytes);
        fill_input(job, run, member, inputs[member] + GUARD);
        operands[member] = inputs[member] + GUARD;
    }
    job->reduce(job, operands, result + GUARD, job->counts[run]);
    for (int member = 0; member < job->play.club->size; member++) {
        mem_free(inputs[member]);
    }
    return result;
}

/* The part of a run's result that a member gets. */
static struct op_part part_of(const struct job *job, int member, size_t run)
{
    size_t bytes = job->counts[run] * tutti_dtype_size(job->dtype);

    if (job->collective == TUTTI_REDUCESCATTER) {
        return job->reductions[member].parts[run][member];
    }
    return (struct op_part){
        .bytes = job->collective == TUTTI_REDUCE && member != job->root ? 0 : bytes
    };
}

static void reduction_run_check_and_free(const struct job *job, int member, size_t run)
{
    const struct reduction *reduction = &job->reductions[member];
    size_t bytes = job->counts[run] * tutti_dtype_size(job->dtype);
    uint8_t *result = result_new(job, run);
    uint8_t *expected = buffer_new(bytes);
    struct op_part part = part_of(job, member, run);
    size_t at = job->in_place ? part.offset : 0;

    if (job->in_place) {
        fill_input(job, run, member, expected + GUARD);
    }
    memcpy(expected + GUARD + at, result + GUARD + part.offset, part.bytes);
    assert_memory_equal(reduction->outputs[run], expected, bytes + 2 * GUARD);
    if (!job->in_place) {
        fill_input(job, run, member, expected + GUARD);
        assert_memory_equal(reduction->inputs[run], expected, bytes + 2 * GUARD);
        place_free(job, member, run, true, reduction->outputs[run]);
    }
    place_free(job, member, run, false, reduction->inputs[run]);
    mem_free(expected);
    mem_free(result);
}

/* -------------------------------------------------------------------- jobs */

void job_make(struct job *job)
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
                .lane = job->play.lane,
                .collective = job->collective,
                .root = job->root,
                .run_count = job->run_count,
                .most = job->most,
                .sizes_known = job->sizes_known,
                .in_place = job->in_place && job->sizes_known,
                .store = store_of(job->play.club->ranks[member]) };

            trade_make(&job->trades[member], &order, job->backend->task_bytes);
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

void assert_all_left(const struct job *job)
{
    for (int member = 0; member < job->play.club->size; member++) {
        assert_int_equal(job->play.states[member], PART_DONE);
    }
}

void *job_task(struct job *job, int member)
{
    return op_is_exchange(job->collective) ? job->trades[member].task
                                           : job->reductions[member].task;
}

tutti_status job_start(struct fleet *fleet, void *user, int member)
{
    struct job *job = user;
    void *state = fleet->state[job->play.club->ranks[member]];
    bool trades = op_is_exchange(job->collective);
    const struct op_batch *batch =
            trades ? &job->trades[member].batch : &job->reductions[member].batch;

    assert_true(job->backend->accepts(state, batch));
    job->play.states[member] = PART_RUNNING;
    return job->backend->start(state, job_task(job, member), batch);
}

tutti_status job_step(struct fleet *fleet, void *user, int member, bool *moved)
{
    struct job *job = user;
    void *state = fleet->state[job->play.club->ranks[member]];
    tutti_status status = job->backend->step(state, job_task(job, member), moved);

    if (status == TUTTI_OK) {
        assert_true(*moved);
        member_leaves(job, member);
    }
    return status;
}

struct program program_new(size_t count)
{
    struct program program = { .count = count,
        .job_size = sizeof(struct job),
        .start = job_start,
        .step = job_step };

    program.jobs = mem_calloc(count, sizeof(struct job));
    assert_non_null(program.jobs);
    return program;
}

void program_end(const struct program *program)
{
    struct job *jobs = program->jobs;

    for (size_t i = 0; i < program->count; i++) {
        assert_all_left(&jobs[i]);
    }
    mem_free(jobs);
}

void run_scheduled(struct fleet *fleet, const struct program *program, uint64_t seed)
{
    fleet_run_scheduled(fleet, program, seed);
    program_end(program);
}

void job_randomise(struct job *job, uint64_t *random)
{
    static const tutti_collective collectives[] = { TUTTI_REDUCE, TUTTI_REDUCESCATTER,
        TUTTI_ALLGATHER, TUTTI_ALLTOALL, TUTTI_GATHER, TUTTI_SCATTER };

    job->collective = collectives[next_random(random) % 6];
    do {
        job->dtype = (tutti_dtype)(next_random(random) % (TUTTI_BOOL + 1));
        job->op = (tutti_reduce_op)(next_random(random) % (TUTTI_PRODUCT + 1));
    } while (!reduce_is_supported(job->dtype, job->op));
    job->prescale = 1;
    job->postscale = 1;
    job->reduce = job_reduce_flat;
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
