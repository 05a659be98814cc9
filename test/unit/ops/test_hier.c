/*
 * The composed backend over shared memory inside and across: jobs of every collective
 * (jobs.h) on groups of all shapes, under a seeded schedule and as threads (fleet.h).
 *
 * Results are those of two trees, one over each group and one over the groups. Where the
 * groups are blocks of a power of two of the ranks that is the one tree over all.
 *
 * Most tests run twice: with ranks that address all of each other's memory, and apart.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "ops/hier/hier.h"
#include "test/batch/reference.h"
#include "test/unit/ops/jobs.h"

/* The open fleet's: group of each world rank, and what each rank's backend stands on. */
static int group_of[FLEET_RANKS_MAX];
static int within[FLEET_RANKS_MAX];
static struct hier_config grounds[FLEET_RANKS_MAX];
static size_t piece_chunks; /* of the next fleet */

/*
 * Shared memory under observation: `running` are the batches that were started and neither
 * finished nor cancelled, and none across moves what its group could move inside.
 * `crossed` are the bytes that exchanges sent across.
 */
static struct op_backend inside, across;
static _Atomic int running;
static _Atomic size_t crossed;

static tutti_status observed_start(
        void *state, void *task, const struct op_batch *batch)
{
    const tutti_status status = op_shm.start(state, task, batch);

    if (status == TUTTI_OK) {
        (void)atomic_fetch_add(&running, 1);
    }
    return status;
}

/* Parts between members of a group, this rank included, are empty. Counts the others. */
static void assert_moves_nothing_inside(const struct op_batch *batch)
{
    const int *ranks = batch->set->world_ranks;

    for (size_t run = 0; run < batch->run_count; run++) {
        for (int m = 0; m < batch->set->size; m++) {
            if (group_of[ranks[m]] == group_of[ranks[batch->set->rank]]) {
                assert_int_equal(batch->runs[run].sends[m].bytes, 0);
                assert_int_equal(batch->runs[run].recvs[m].bytes, 0);
            }
            (void)atomic_fetch_add(&crossed, batch->runs[run].sends[m].bytes);
        }
    }
}

static tutti_status observed_start_across(
        void *state, void *task, const struct op_batch *batch)
{
    if (op_is_exchange(batch->collective)) {
        assert_moves_nothing_inside(batch);
    } else {
        for (int m = 0; m < batch->set->size; m++) {
            for (int other = 0; other < m; other++) {
                assert_int_not_equal(group_of[batch->set->world_ranks[m]],
                        group_of[batch->set->world_ranks[other]]);
            }
        }
    }
    return observed_start(state, task, batch);
}

static tutti_status observed_step(void *state, void *task, bool *moved)
{
    const tutti_status status = op_shm.step(state, task, moved);

    if (status == TUTTI_OK) {
        (void)atomic_fetch_sub(&running, 1);
    }
    return status;
}

static bool observed_cancel(void *state, void *task)
{
    const bool done = op_shm.cancel(state, task);

    if (done) {
        (void)atomic_fetch_sub(&running, 1);
    }
    return done;
}

static void observe(void)
{
    inside = op_shm;
    inside.start = observed_start;
    inside.step = observed_step;
    inside.cancel = observed_cancel;
    across = inside;
    across.start = observed_start_across;
    atomic_store(&running, 0);
}

static void *ground_of(struct fleet *fleet, int rank)
{
    const struct batch_store *store = store_of(rank);
    struct hier_config *config = &grounds[rank];

    *config = (struct hier_config){ .inner = &inside,
        .across = &across,
        .inner_native = fleet->domain,
        .across_native = fleet->domain,
        .group_of = group_of,
        .piece_chunks = piece_chunks };
    if (store != NULL) {
        config->alloc = store->alloc;
        config->give_back = store->free;
        config->user = store->user;
    }
    return config;
}

/* A fleet with a digit for the group of each rank. */
static void open_groups(struct fleet *fleet, const char *digits)
{
    const int size = (int)strlen(digits);

    for (int rank = 0; rank < size; rank++) {
        group_of[rank] = digits[rank] - '0';
    }
    (void)reference_set_groups(digits);
    observe();
    fleet_open_on(fleet, size, &op_hier, ground_of);
}

static void close_groups(struct fleet *fleet)
{
    assert_int_equal(atomic_load(&running), 0);
    (void)reference_set_groups(NULL);
    fleet_close(fleet);
}

static int whole(void **state)
{
    piece_chunks = 0;
    return fleet_is_apart(state);
}

static int whole_of_all(void **state)
{
    piece_chunks = 0;
    return fleet_addresses_everything(state);
}

/* Large batches are done in pieces, which makes no difference. */
static int in_pieces(void **state)
{
    piece_chunks = 1;
    return fleet_is_apart(state);
}

static int in_pieces_of_all(void **state)
{
    piece_chunks = 1;
    return fleet_addresses_everything(state);
}

#define ALL_TEST(name) \
    UNIT_TEST_SET_UPS(name, whole_of_all, whole, in_pieces, in_pieces_of_all)
#define TOGETHER_ALL_TEST(name) UNIT_TEST_SET_UPS(name, whole_of_all, in_pieces_of_all)

/* -------------------------------------------------------------------- jobs */

static bool groups_are_equal(const struct club *club)
{
    int members[FLEET_RANKS_MAX] = { 0 };

    for (int m = 0; m < club->size; m++) {
        members[group_of[club->ranks[m]]]++;
    }
    for (int m = 1; m < club->size; m++) {
        if (members[group_of[club->ranks[m]]] != members[group_of[club->ranks[0]]]) {
            return false;
        }
    }
    return true;
}

/* Any job that is taken. */
static void choose(struct job *job, uint64_t *random)
{
    static const struct scales scales[] = { { 1, 1 }, { 0.3, 1 }, { 1, 3 },
        { -1.7, 0.4 } };
    const uint64_t number = next_random(random);
    struct batch_order *order = &job->order;
    struct operation *o = &order->operation;

    job->backend = &op_hier;
    *order = batch_order_random(job->play.club->size, number);
    if (op_is_exchange(o->collective)) {
        o->form = FORM_LISTED;
    }
    if (o->pattern.op == TUTTI_AVERAGE && !dtype_is_real(o->pattern.dtype)) {
        o->pattern.op = TUTTI_SUM;
    }
    if (dtype_is_real(o->pattern.dtype)) {
        o->scales = scales[number >> 32 & 3];
    }
    if (o->collective == TUTTI_BROADCAST) {
        o->in_place = true;
        order->run_count = 1;
    } else if (o->collective == TUTTI_REDUCESCATTER &&
            !groups_are_equal(job->play.club)) {
        o->collective = TUTTI_REDUCE;
    }
}

/* As one tree over all members. */
static void expect_flat(const struct batch *batch, size_t run, void *output)
{
    const struct crew crew = batch_crew(batch);
    const char *groups = reference_set_groups(NULL);

    operation_expect(&batch->memory[run].operation, &crew, NULL, output);
    (void)reference_set_groups(groups);
}

static void choose_flat(struct job *job, uint64_t *random)
{
    choose(job, random);
    if (tutti_dtype_size(job->order.operation.pattern.dtype) != 2 ||
            !dtype_is_real(job->order.operation.pattern.dtype)) {
        job->order.expect = expect_flat;
    }
}

/* Random jobs on clubs of ranks in such groups. */
static void run_random(
        const char *digits, const struct club *clubs, size_t count, uint64_t seed)
{
    struct program program;
    struct fleet fleet;

    open_groups(&fleet, digits);
    program = program_random(clubs, count, seed, choose);
    run_scheduled(&fleet, &program, seed);
    close_groups(&fleet);
}

ALL_TEST(test_blocks_of_a_power_of_two_give_the_bits_of_one_tree)
{
    static const char *const groups[] = { "0011", "001122", "0000111", "00112" };

    for (uint64_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const struct club all = club_of_all((int)strlen(groups[i]));
        struct program program;
        struct fleet fleet;

        open_groups(&fleet, groups[i]);
        program = program_random(&all, 1, i + 1, choose_flat);
        run_scheduled(&fleet, &program, i + 1);
        close_groups(&fleet);
    }
}

ALL_TEST(test_groups_of_any_shape)
{
    static const char *const groups[] = { "011122", "010101", "0111220", "001", "0111",
        "000111" };

    for (uint64_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const struct club all = club_of_all((int)strlen(groups[i]));

        run_random(groups[i], &all, 1, i + 10);
    }
}

/* Ranks start the batches of the sets in different orders (fleet.h). */
ALL_TEST(test_overlapping_sets)
{
    const struct club clubs[] = {
        { .id = 0, .index = 0, .size = 6, .ranks = { 0, 1, 2, 3, 4, 5 } },
        { .id = 9, .index = 3, .size = 4, .ranks = { 5, 0, 4, 1 } },
        { .id = 4, .index = OP_SETS_MAX - 1, .size = 3, .ranks = { 2, 3, 0 } },
    };

    for (uint64_t seed = 1; seed <= 2; seed++) {
        run_random("012021", clubs, 2, seed);
        run_random("000111", clubs, 3, seed);
    }
}

/* Each part goes once to each other group, whatever the sizes of the groups. */
ALL_TEST(test_an_allgather_crosses_once)
{
    static const char *const groups[] = { "0011", "00112", "0100", "010221" };

    for (uint64_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const int size = (int)strlen(groups[i]);
        const struct club all = club_of_all(size);
        struct program program = program_new(1);
        struct job *job = program.jobs;
        struct fleet fleet;
        size_t bytes = 0;
        int count = 0;

        open_groups(&fleet, groups[i]);
        *job = (struct job){ .play = { .club = &all },
            .backend = &op_hier,
            .order = { .operation = { .collective = TUTTI_ALLGATHER,
                               .form = FORM_LISTED,
                               .is_sparse = true },
                    .run_count = 3,
                    .counts = { 5000, 5000, 5000 } } };
        job_make(job);
        for (int rank = 0; rank < size; rank++) {
            count = group_of[rank] < count ? count : group_of[rank] + 1;
            for (size_t run = 0; run < job->order.run_count; run++) {
                bytes += job->batches[rank].runs[run].sends[rank].bytes;
            }
        }
        atomic_store(&crossed, 0);
        run_scheduled(&fleet, &program, i);
        assert_int_equal(atomic_load(&crossed), bytes * (size_t)(count - 1));
        close_groups(&fleet);
    }
}

/* Ranks miss batches of a set, which then has other groups, and take part again. */
ALL_TEST(test_ranks_may_be_left_out)
{
    const struct club clubs[] = {
        { .id = 3, .index = 2, .size = 6, .ranks = { 0, 1, 2, 3, 4, 5 } },
        { .id = 3, .index = 2, .size = 4, .ranks = { 0, 2, 3, 5 } },
        { .id = 3, .index = 2, .size = 5, .ranks = { 0, 1, 2, 4, 5 } },
    };

    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct program program = program_new(280);
        struct job *jobs = program.jobs;
        uint64_t random = seed;
        struct fleet fleet;

        open_groups(&fleet, "001011");
        for (size_t i = 0; i < program.count; i++) {
            jobs[i].play.club = &clubs[i < 5 ? 0 : i / 90 % 3];
            jobs[i].play.sequence = i;
            choose(&jobs[i], &random);
            job_make(&jobs[i]);
        }
        run_scheduled(&fleet, &program, seed);
        close_groups(&fleet);
    }
}

ALL_TEST(test_ranks_run_as_threads)
{
    const struct club clubs[] = {
        { .id = 1, .index = 1, .size = 5, .ranks = { 4, 3, 2, 1, 0 } },
        { .id = 1, .index = 1, .size = 4, .ranks = { 4, 3, 1, 0 } },
        { .id = 2, .index = 2, .size = 4, .ranks = { 0, 1, 3, 2 } },
    };
    struct program program;
    struct fleet fleet;

    open_groups(&fleet, "00101");
    program = program_random(clubs, 3, 77, choose);
    run_threads(&fleet, &program);
    close_groups(&fleet);
}

/* ------------------------------------------------------------ giving up, memory */

/* A sum of so many float32 that it has a slice for each of two lanes. */
static void sum_make(struct job *job, const struct club *club)
{
    *job = (struct job){ .play = { .club = club },
        .backend = &op_hier,
        .order = { .operation = { .collective = TUTTI_ALLREDUCE,
                           .pattern.dtype = TUTTI_FLOAT32 },
                .run_count = 2,
                .counts = { 2000, 2500 } } };
    job_make(job);
}

/* Three of four ranks take `turns` steps each and give up. */
static void give_up_after(int turns)
{
    const struct club all = club_of_all(4);
    struct fleet fleet;
    struct job job;

    open_groups(&fleet, "0011");
    sum_make(&job, &all);
    for (int turn = 0; turn <= turns; turn++) {
        for (int member = 0; member < 3; member++) {
            bool moved = false;

            if (turn == 0) {
                ASSERT_OK(job_start(&fleet, &job, member));
            } else {
                assert_int_equal(job_step(&fleet, &job, member, &moved), TUTTI_AGAIN);
            }
        }
    }
    for (int member = 0; member < 3; member++) {
        assert_true(op_hier.cancel(fleet.state[member], job.batches[member].task));
    }
    close_groups(&fleet);
    job_free(&job);
}

TOGETHER_ALL_TEST(test_a_batch_is_given_up_in_any_stage)
{
    give_up_after(0);
    give_up_after(1);
    give_up_after(6);
}

/* Whoever runs out of memory has begun nothing, or leaves the batch to cancel(). */
TOGETHER_ALL_TEST(test_running_out_of_memory)
{
    const struct club all = club_of_all(4);
    struct fleet fleet;
    struct job job;
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        void *opened = NULL;

        open_groups(&fleet, "0011");
        sum_make(&job, &all);
        mem_fail_at(n);
        failed = op_hier.open(&fleet.env[0], &opened) != TUTTI_OK;
        mem_fail_at(0);
        if (!failed) {
            op_hier.close(opened);
        }
        mem_fail_at(n);
        if (job_start(&fleet, &job, 0) == TUTTI_OK) {
            bool moved = false;
            const tutti_status status = job_step(&fleet, &job, 0, &moved);

            mem_fail_at(0);
            assert_true(status == TUTTI_AGAIN || status == TUTTI_ERR_NO_MEMORY);
            assert_true(op_hier.cancel(fleet.state[0], job.batches[0].task));
        } else {
            mem_fail_at(0);
            failed = true;
        }
        close_groups(&fleet);
        job_free(&job);
        assert_true(n < 40);
    }
}

/* ---------------------------------------------------------------- what it takes */

/* A batch on a club, changed by a test, is taken by its rank 0. */
static bool is_taken(
        const struct fleet *fleet, const struct club *club, const struct op_batch *kind)
{
    const struct op_set set = { .id = club->id,
        .index = club->index,
        .size = club->size,
        .world_ranks = club->ranks };
    struct op_batch batch = *kind;

    batch.set = &set;
    return op_hier.accepts(fleet->state[0], &batch);
}

TOGETHER_ALL_TEST(test_what_does_not_apply_is_declined)
{
    const struct club all = club_of_all(5);
    const struct club equal = { .size = 4, .ranks = { 0, 1, 2, 3 } };
    const struct club one_group = { .size = 2, .ranks = { 0, 1 } };
    const struct club singles = { .size = 3, .ranks = { 0, 2, 4 } };
    struct op_batch sum = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .run_count = 3, .count = 9
    };
    struct fleet fleet;

    open_groups(&fleet, "00112");
    assert_true(is_taken(&fleet, &all, &sum));
    assert_false(is_taken(&fleet, &one_group, &sum));
    assert_false(is_taken(&fleet, &singles, &sum));
    sum.op = TUTTI_AVERAGE; /* its sum needs more bits than an element has */
    assert_false(is_taken(&fleet, &all, &sum));
    sum.dtype = TUTTI_FLOAT16;
    assert_true(is_taken(&fleet, &all, &sum));
    sum.collective = TUTTI_REDUCESCATTER;
    assert_false(is_taken(&fleet, &all, &sum)); /* groups of 2, 2 and 1 */
    assert_true(is_taken(&fleet, &equal, &sum));
    sum.collective = TUTTI_ALLGATHER;
    assert_false(is_taken(&fleet, &all, &sum));
    sum.sizes_known = true;
    assert_true(is_taken(&fleet, &all, &sum));
    sum.collective = TUTTI_BROADCAST;
    assert_false(is_taken(&fleet, &all, &sum));
    sum.run_count = 1;
    assert_true(is_taken(&fleet, &all, &sum));
    grounds[0].size_min = 5;
    assert_true(is_taken(&fleet, &all, &sum));
    assert_false(is_taken(&fleet, &equal, &sum));
    memset(within, 0, sizeof within);
    within[4] = 1;
    grounds[0].size_min = 0;
    grounds[0].within = within;
    assert_false(is_taken(&fleet, &all, &sum));
    assert_true(is_taken(&fleet, &equal, &sum));
    close_groups(&fleet);
}
