/*
 * Tensors of a batch that are neighbours in memory: reduced as one where they are so on
 * every member, in either order, and as they are where not.
 */
#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "test/unit/ops/fleet.h"
#include "test/unit/unit.h"

enum {
    RANKS = 3,
    TENSORS = 64,
    GAP = 16, /* elements that belong to no tensor */
    LONGEST = 400, /* elements of a tensor */
    FLOATS = 64 * 1024,
    LARGE = 128 * 1024 /* chunk_bytes: rounds of many tensors */
};

static const float gap_value = -54321;

/** How a member's tensors lie in its memory. */
enum layout {
    UPWARDS, /* each behind the one before it */
    DOWNWARDS,
    APART, /* upwards, with gaps */
    IN_TURNS, /* some upwards, some downwards, some apart */
    LAYOUTS
};

/** One member's part in the batch. */
struct part {
    struct op_set set;
    struct op_batch batch;
    struct op_run runs[TENSORS];
    void *task;
    float *memory; /* [FLOATS] owned */
};

struct job {
    struct play play;
    size_t counts[TENSORS];
    struct part parts[RANKS];
};

/** Where tensor t begins: FLOATS / 2 stays inside in either direction. */
static void place(const struct job *job, enum layout layout, size_t begins[TENSORS])
{
    size_t low = FLOATS / 2;
    size_t high = FLOATS / 2;

    for (size_t t = 0; t < TENSORS; t++) {
        const bool down = layout == DOWNWARDS ||
                (layout == IN_TURNS && t % 16 >= 4 && t % 16 < 9);
        const size_t gap =
                layout == APART || (layout == IN_TURNS && t % 7 == 0) ? GAP : 0;

        if (down) {
            low -= job->counts[t] + gap;
            begins[t] = low;
        } else {
            begins[t] = high + gap;
            high = begins[t] + job->counts[t];
        }
    }
}

static float value_of(int member, size_t tensor, size_t element)
{
    return (float)((size_t)(member + 1) * (1 + (element + 7 * tensor) % 97));
}

static void part_init(struct job *job, int member, enum layout layout, bool reserved)
{
    struct part *part = &job->parts[member];
    size_t begins[TENSORS];

    part->memory = reserved && fleet_reservations() != NULL
            ? shm_domain_alloc(fleet_reservations(), member, FLOATS * sizeof(float))
            : mem_alloc(FLOATS * sizeof(float));
    part->task = mem_calloc(1, op_shm.task_bytes);
    assert_non_null(part->memory);
    assert_non_null(part->task);
    for (size_t i = 0; i < FLOATS; i++) {
        part->memory[i] = gap_value;
    }
    part->set = (struct op_set){
        .rank = member, .size = RANKS, .world_ranks = job->play.club->ranks
    };
    part->batch = (struct op_batch){ .set = &part->set,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .prescale = 1,
        .postscale = 1,
        .runs = part->runs,
        .run_count = TENSORS };
    place(job, layout, begins);
    for (size_t t = 0; t < TENSORS; t++) {
        float *tensor = part->memory + begins[t];

        for (size_t i = 0; i < job->counts[t]; i++) {
            tensor[i] = value_of(member, t, i);
        }
        part->runs[t] = (struct op_run){
            .input = tensor, .output = tensor, .count = job->counts[t]
        };
        part->batch.count += job->counts[t];
    }
}

/** The number of elements of a part that are not what they must be in the end. */
static size_t wrong_in(const struct job *job, int member)
{
    const struct part *part = &job->parts[member];
    size_t outside = FLOATS;
    size_t wrong = 0;

    for (size_t t = 0; t < TENSORS; t++) {
        const float *tensor = part->runs[t].output;

        for (size_t i = 0; i < job->counts[t]; i++) {
            float sum = 0;

            for (int m = 0; m < RANKS; m++) {
                sum += value_of(m, t, i);
            }
            wrong += tensor[i] != sum;
        }
        outside -= job->counts[t];
    }
    for (size_t i = 0; i < FLOATS; i++) {
        outside -= part->memory[i] == gap_value;
    }
    return wrong + outside;
}

static tutti_status start(struct fleet *fleet, void *user, int member)
{
    struct job *job = user;
    struct part *part = &job->parts[member];

    job->play.states[member] = PART_RUNNING;
    return op_shm.start(fleet->state[member], part->task, &part->batch);
}

static tutti_status step(struct fleet *fleet, void *user, int member, bool *moved)
{
    struct job *job = user;
    tutti_status status =
            op_shm.step(fleet->state[member], job->parts[member].task, moved);

    if (status == TUTTI_OK) {
        job->play.states[member] = PART_DONE;
    }
    return status;
}

/* The linker puts this in front of reduce_tree(): it counts sums of more than one tensor. */
static _Atomic size_t joint_sums;

void __real_libtutti_reduce_tree(const struct reduce_spec *spec,
        const void *const *inputs, int n, void *const *outputs, int m, size_t count);
void __wrap_libtutti_reduce_tree(const struct reduce_spec *spec,
        const void *const *inputs, int n, void *const *outputs, int m, size_t count);

void __wrap_libtutti_reduce_tree(const struct reduce_spec *spec,
        const void *const *inputs, int n, void *const *outputs, int m, size_t count)
{
    joint_sums += count > LONGEST ? 1 : 0;
    __real_libtutti_reduce_tree(spec, inputs, n, outputs, m, count);
}

/** Sums TENSORS tensors of these members' layouts; returns how many sums were of several. */
static size_t run(const enum layout layouts[RANKS], const bool reserved[RANKS],
        size_t chunk_bytes, size_t shortest, uint64_t seed)
{
    const struct club all = club_of_all(RANKS);
    struct job job = { .play = { .club = &all } };
    const struct program program = {
        .jobs = &job, .count = 1, .job_size = sizeof job, .start = start, .step = step
    };
    struct fleet fleet;

    joint_sums = 0;
    fleet_open_pieces(&fleet, RANKS, chunk_bytes);
    for (size_t t = 0; t < TENSORS; t++) {
        job.counts[t] = shortest + next_random(&seed) % (LONGEST - shortest + 1);
    }
    for (int member = 0; member < RANKS; member++) {
        part_init(&job, member, layouts[member], reserved[member]);
    }

    fleet_run_scheduled(&fleet, &program, seed);

    for (int member = 0; member < RANKS; member++) {
        struct part *part = &job.parts[member];

        assert_int_equal(job.play.states[member], PART_DONE);
        assert_int_equal(wrong_in(&job, member), 0);
        if (reserved[member] && fleet_reservations() != NULL) {
            shm_domain_free(fleet_reservations(), member, part->memory);
        } else {
            mem_free(part->memory);
        }
        mem_free(part->task);
    }
    fleet_close(&fleet);
    return joint_sums;
}

static const bool all_reserved[RANKS] = { true, true, true };

BOTH_TEST(test_neighbours_are_one_sum)
{
    const enum layout up[RANKS] = { UPWARDS, UPWARDS, UPWARDS };
    const enum layout down[RANKS] = { DOWNWARDS, DOWNWARDS, DOWNWARDS };

    assert_true(run(up, all_reserved, LARGE, 300, 1) > 0);
    assert_true(run(down, all_reserved, LARGE, 300, 2) > 0);
}

BOTH_TEST(test_what_is_apart_on_one_member_is_summed_apart)
{
    const enum layout gaps[RANKS] = { UPWARDS, APART, UPWARDS };
    const enum layout opposite[RANKS] = { UPWARDS, UPWARDS, DOWNWARDS };

    assert_int_equal(run(gaps, all_reserved, LARGE, 300, 3), 0);
    assert_int_equal(run(opposite, all_reserved, LARGE, 300, 4), 0);
}

BOTH_TEST(test_any_mixture_is_right)
{
    uint64_t random = 5;

    for (int i = 0; i < 300; i++) {
        enum layout layouts[RANKS];
        bool reserved[RANKS];

        for (int member = 0; member < RANKS; member++) {
            layouts[member] = (enum layout)(next_random(&random) % LAYOUTS);
            reserved[member] = next_random(&random) % 3 != 0;
        }
        if (i % 3 == 0) {
            layouts[1] = layouts[2] = layouts[0];
        }
        (void)run(layouts, reserved, i % 4 < 2 ? LARGE : 8192, i % 2 == 0 ? 1 : 200,
                random);
    }
}
