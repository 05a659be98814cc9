/*
 * Join: ranks that have no more data are skipped, not counted as zeros; what cannot go on
 * without them fails with a reason; and afterwards everything starts anew.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64,
    STEPS_MAX = 6
};

/* Steps of a rank in an epoch: uneven, and nobody is the last one always. */
static int steps_of(int rank, int epoch)
{
    return (rank * 2 + epoch) % (STEPS_MAX + 1);
}

/* Those that have joined when a step is taken. */
static bool mark_absent(const struct crew *crew, bool *absent, int epoch, int step)
{
    bool any = false;

    for (int i = 0; i < crew->size; i++) {
        absent[i] = steps_of(crew->world[i], epoch) <= step;
        any = any || absent[i];
    }
    return any;
}

/* The reductions of one step; a reduce needs a root that takes part. */
static size_t reductions_of(struct operation *operations, const struct crew *crew,
        const bool *absent, int step)
{
    static const tutti_collective reducing[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
        TUTTI_REDUCESCATTER };
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_INT64 };
    size_t n = 0;
    int root = 0;

    while (absent[root]) {
        root++;
    }
    for (int op = TUTTI_SUM; op <= TUTTI_SET_AVERAGE; op++) {
        for (int k = 0; k < 3; k++) {
            operations[n] = (struct operation){ .collective = reducing[k],
                .pattern = { dtypes[(op + k) % 3], (tutti_reduce_op)op,
                        (uint32_t)(100 * step + (int)n) },
                .scales = { 1, 1 },
                .root = root,
                .count = reducing[k] == TUTTI_REDUCESCATTER ? 2 * crew->size + 1 : 37,
                .row_count = 3,
                .in_place = (op + step) % 2 == 0 };
            n++;
        }
    }
    return n;
}

#define REDUCTIONS 18

/* Roots are part of the metadata, so their names differ; the others keep theirs. */
static void name_of(char *name, size_t capacity, const struct operation *o, size_t i)
{
    (void)snprintf(name, capacity, "uneven %zu, root %d", i,
            o->collective == TUTTI_REDUCE ? o->root : 0);
}

static void one_step(
        tutti *t, struct checks *c, const struct crew *all, int epoch, int step)
{
    bool absent[RANKS_MAX] = { false };
    struct crew crew = *all;
    struct operation operations[REDUCTIONS];
    struct flight flights[REDUCTIONS];
    char name[48];
    size_t n;

    crew.absent = mark_absent(&crew, absent, epoch, step) ? absent : NULL;
    n = reductions_of(operations, &crew, absent, step);
    for (size_t i = 0; i < n; i++) {
        const size_t k = (i + (size_t)c->rank) % n;

        name_of(name, sizeof name, &operations[k], k);
        flight_begin(t, c, &flights[k], &operations[k], &crew, name);
    }
    for (size_t i = 0; i < n; i++) {
        flight_end(t, c, &flights[i]);
    }
}

/* All ranks, in the end, hold the same number of who joined last; it had most to do. */
static void check_last(
        tutti *t, struct checks *c, const struct crew *crew, int last, int epoch)
{
    int most = 0;
    int32_t both[2] = { last, -last };
    tutti_options options;

    for (int i = 0; i < crew->size; i++) {
        const int steps = steps_of(crew->world[i], epoch);

        most = steps > most ? steps : most;
    }
    if (!EXPECT(c, last >= 0 && last < crew->size)) {
        return;
    }
    EXPECT(c, steps_of(crew->world[last], epoch) == most);
    tutti_options_default(&options);
    options.process_set = crew->set;
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "last", both, both, 2, TUTTI_INT32, TUTTI_MAX, &options));
    EXPECT(c, both[0] == last && both[1] == -last);
}

static void one_epoch(tutti *t, struct checks *c, const struct crew *crew, int epoch)
{
    tutti_options options;
    int last = -1;

    tutti_options_default(&options);
    options.process_set = crew->set;
    for (int step = 0; step < steps_of(c->rank, epoch); step++) {
        one_step(t, c, crew, epoch, step);
    }
    EXPECT_OK(c, tutti_join(t, &options, &last));
    check_last(t, c, crew, last, epoch);
}

/* Every reduction of all types with contributors only; names cached before. */
static void uneven_epochs(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);

    checks_step(c, "uneven epochs");
    for (int epoch = 0; epoch < 6; epoch++) {
        one_epoch(t, c, &world, epoch);
    }
}

/* Ranks that pass on what others announce must not hold it back for one that has joined. */
static void in_a_deep_tree(struct checks *c)
{
    static const struct setting deep[] = { { "tree_fanout", "2" }, { 0 } };
    tutti *t = job_open(c, deep);

    uneven_epochs(t, c);
    EXPECT_OK(c, tutti_finalize(t));
}

/* On a set, while the others of the world work with all ranks. */
static void on_a_process_set(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    struct crew crew = { .world = ranks, .index = -1 };
    int32_t value = 1;

    checks_step(c, "on a process set");
    for (int r = c->size - 1; r >= 0; r--) {
        if (r != 1) {
            crew.index = r == c->rank ? crew.size : crew.index;
            ranks[crew.size++] = r;
        }
    }
    EXPECT_OK(c, tutti_process_set_create(t, ranks, crew.size, &crew.set));
    for (int epoch = 0; epoch < 3 && crew.index >= 0; epoch++) {
        one_epoch(t, c, &crew, epoch);
    }
    EXPECT_OK(c,
            tutti_allreduce(t, "beside the set", &value, &value, 1, TUTTI_INT32,
                    TUTTI_SUM, NULL));
    EXPECT(c, value == c->size);
    EXPECT_OK(c, tutti_process_set_destroy(t, crew.set));
}

/* What this rank submitted before it joined counts, in flight or not. */
static void what_came_before_counts(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    tutti_request requests[2] = { 0 };
    int32_t value = 1;
    int32_t alone = 1;
    int last = -1;

    checks_step(c, "what came before counts");
    if (!late) {
        EXPECT_OK(c,
                tutti_allreduce_async(t, "before", &value, &value, 1, TUTTI_INT32,
                        TUTTI_SUM, NULL, &requests[0]));
        EXPECT_OK(c, tutti_join_async(t, NULL, &last, &requests[1]));
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c,
                tutti_allreduce(
                        t, "before", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL));
        EXPECT_OK(c,
                tutti_allreduce(
                        t, "after", &alone, &alone, 1, TUTTI_INT32, TUTTI_SUM, NULL));
        EXPECT(c, alone == 1);
        EXPECT_OK(c, tutti_join_async(t, NULL, &last, &requests[1]));
    }
    EXPECT_OK(c, tutti_wait_all(t, 2, requests, TUTTI_FOREVER, NULL));
    EXPECT(c, value == c->size && last == c->size - 1);
}

/* Asynchronously, with a callback, from within the loop. */
static void store_status(void *user, tutti_status status, const char *message)
{
    tutti_status *stored = user;

    (void)message;
    *stored = status;
}

static void asynchronous(tutti *t, struct checks *c)
{
    tutti_options options;
    tutti_status stored = TUTTI_AGAIN;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_request second = 77;
    int32_t value = 1;
    int last = -1;

    checks_step(c, "asynchronous");
    EXPECT_OK(c, tutti_join_async(t, NULL, NULL, &request));
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    tutti_options_default(&options);
    options.callback = store_status;
    options.user = &stored;
    EXPECT_OK(c, tutti_join_async(t, &options, &last, NULL));
    job_meet(c);
    /* A wait that is behind the join in the log sees the callback's work. */
    while (tutti_allreduce_async(t, "behind", &value, &value, 1, TUTTI_INT32, TUTTI_SUM,
                   NULL, &second) != TUTTI_OK) {
        (void)sched_yield();
    }
    EXPECT_OK(c, tutti_wait(t, &second, TUTTI_FOREVER));
    EXPECT_OK(c, stored);
    EXPECT(c, last >= 0 && last < c->size && value == c->size);
}

/* Until the join is finished nothing else goes to the set, but to others it does. */
static void submissions_while_joined(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    const int alone[] = { c->rank };
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_request second = TUTTI_REQUEST_NULL;
    tutti_process_set sets[RANKS_MAX] = { 0 };
    tutti_options options;
    int32_t value = 1;

    checks_step(c, "submissions while joined");
    for (int r = 0; r < c->size; r++) {
        EXPECT_OK(
                c, tutti_process_set_create(t, r == c->rank ? alone : &r, 1, &sets[r]));
    }
    tutti_options_default(&options);
    options.process_set = sets[c->rank];
    if (!late) {
        EXPECT_OK(c, tutti_join_async(t, NULL, NULL, &request));
        EXPECT_STATUS(c, TUTTI_ERR_INVALID,
                tutti_allreduce_async(t, "no", &value, &value, 1, TUTTI_INT32,
                        TUTTI_SUM, NULL, &second));
        checks_list(
                c, 0, "allreduce after join", TUTTI_ERR_INVALID, tutti_last_error());
        EXPECT(c, strstr(tutti_last_error(), "joined") != NULL);
        EXPECT_STATUS(
                c, TUTTI_ERR_INVALID, tutti_barrier_async(t, "no", NULL, &second));
        EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, tutti_join_async(t, NULL, NULL, &second));
        checks_list(c, 0, "second join", TUTTI_ERR_DUPLICATE, tutti_last_error());
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(t, &request, 0));
        EXPECT_OK(c,
                tutti_allreduce(t, "own set", &value, &value, 1, TUTTI_INT32, TUTTI_SUM,
                        &options));
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c, tutti_join_async(t, NULL, NULL, &request));
    }
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    for (int r = 0; r < c->size; r++) {
        EXPECT_OK(c, tutti_process_set_destroy(t, sets[r]));
    }
}

/* Rank 0 has joined; the others' operation fails alike on all of them, and at once. */
static void refuse_one(
        tutti *t, struct checks *c, const struct crew *crew, const struct operation *o)
{
    struct flight flight;
    char message[1024];

    flight_begin(t, c, &flight, o, crew, "refused by join");
    EXPECT_STATUS(
            c, TUTTI_ERR_UNSUPPORTED, tutti_wait(t, &flight.request, TUTTI_FOREVER));
    (void)snprintf(message, sizeof message, "%s", tutti_last_error());
    EXPECT(c, strstr(message, "refused by join") != NULL);
    EXPECT(c, strstr(message, tutti_collective_name(o->collective)) != NULL);
    EXPECT(c, strstr(message, "rank 0 has joined") != NULL);
    checks_list(c, 1, "without a rank that has joined", TUTTI_ERR_UNSUPPORTED, message);
    flight_fini(&flight);
}

enum {
    OTHERS = 6
};

static void all_are_refused(tutti *t, struct checks *c, const struct crew *world,
        const struct operation *operations)
{
    for (int i = 0; i < OTHERS; i++) {
        refuse_one(t, c, world, &operations[i]);
    }
    EXPECT_STATUS(c, TUTTI_ERR_UNSUPPORTED, tutti_barrier(t, "refused by join", NULL));
}

/* With all ranks they work, and get their numbers. */
static void all_work(tutti *t, struct checks *c, const struct crew *world,
        const struct operation *operations)
{
    for (int i = 0; i < 3 * OTHERS; i++) {
        struct flight flight;

        flight_begin(t, c, &flight, &operations[i % OTHERS], world, "refused by join");
        flight_end(t, c, &flight);
    }
    EXPECT_OK(c, tutti_barrier(t, "refused by join", NULL));
}

/* Before the names have numbers, and with numbers: Horovod fails at these. */
static void others_are_refused(tutti *t, struct checks *c)
{
    static const tutti_collective others[OTHERS] = { TUTTI_BROADCAST, TUTTI_ALLGATHER,
        TUTTI_ALLTOALL, TUTTI_GATHER, TUTTI_SCATTER, TUTTI_REDUCE };
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);
    struct operation operations[OTHERS];

    checks_step(c, "others are refused");
    for (int i = 0; i < OTHERS; i++) {
        operations[i] = (struct operation){ .collective = others[i],
            .pattern = { TUTTI_INT16, TUTTI_SUM, (uint32_t)i },
            .scales = { 1, 1 },
            .count = 4,
            .row_count = 1 };
    }
    for (int round = 0; round < 2; round++) {
        if (c->rank > 0) {
            all_are_refused(t, c, &world, operations);
        }
        EXPECT_OK(c, tutti_join(t, NULL, NULL));
        all_work(t, c, &world, operations);
    }
}

/* A group of reductions goes on; a group with anything else fails as a whole. */
static void groups(tutti *t, struct checks *c)
{
    tutti_request requests[2] = { 0 };
    tutti_status statuses[2];
    int32_t values[2] = { 1, 1 };

    checks_step(c, "groups");
    if (c->rank == 0) {
        EXPECT_OK(c, tutti_join(t, NULL, NULL));
        return;
    }
    for (int mixed = 0; mixed < 2; mixed++) {
        EXPECT_OK(c, tutti_group_begin(t));
        EXPECT_OK(c,
                tutti_allreduce_async(t, "member of a group", &values[0], &values[0], 1,
                        TUTTI_INT32, TUTTI_SUM, NULL, &requests[0]));
        if (mixed != 0) {
            EXPECT_OK(c,
                    tutti_broadcast_async(t, "member of a group", &values[1], 1,
                            TUTTI_INT32, 1, NULL, &requests[1]));
        } else {
            EXPECT_OK(c,
                    tutti_allreduce_async(t, "other member", &values[1], &values[1], 1,
                            TUTTI_INT32, TUTTI_MIN, NULL, &requests[1]));
        }
        EXPECT_OK(c, tutti_group_end(t));
        EXPECT_STATUS(c, mixed != 0 ? TUTTI_ERR_UNSUPPORTED : TUTTI_OK,
                tutti_wait_all(t, 2, requests, TUTTI_FOREVER, statuses));
        EXPECT(c, statuses[0] == statuses[1]);
        EXPECT(c, values[0] == c->size - 1);
    }
    EXPECT_OK(c, tutti_join(t, NULL, NULL));
}

/* All rows fall to a rank that has joined: nothing is left to be done, and it is done. */
static void rows_of_the_joined(tutti *t, struct checks *c)
{
    const int64_t rows_of[RANKS_MAX] = { 4 };
    int32_t rows[4] = { 1, 2, 3, 4 };

    checks_step(c, "rows of the joined");
    if (c->rank > 0) {
        for (int i = 0; i < 4; i++) {
            EXPECT_OK(c,
                    tutti_reducescatter(t, "of rank 0 only", rows, NULL, 4, 1, rows_of,
                            TUTTI_INT32, TUTTI_SUM, NULL));
        }
        EXPECT(c, rows[0] == 1 && rows[3] == 4);
    }
    EXPECT_OK(c, tutti_join(t, NULL, NULL));
    for (int i = 0; i < 3; i++) {
        int32_t value = 1;

        EXPECT_OK(c,
                tutti_allreduce(
                        t, "and on", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL));
        EXPECT(c, value == c->size);
    }
}

/* Process sets cannot be changed without all ranks. */
static void sets_are_refused(tutti *t, struct checks *c)
{
    const int first[] = { 0 };
    tutti_process_set set = 77;

    checks_step(c, "process sets");
    if (c->rank > 0) {
        EXPECT_STATUS(
                c, TUTTI_ERR_UNSUPPORTED, tutti_process_set_create(t, first, 1, &set));
        EXPECT(c, set == 77);
    }
    EXPECT_OK(c, tutti_join(t, NULL, NULL));
    EXPECT_OK(c, tutti_process_set_create(t, first, 1, &set));
    EXPECT_OK(c, tutti_process_set_destroy(t, set));
}

/* The average of the single rank that is left is its own value, whatever the size. */
static void average_of_one(tutti *t, struct checks *c)
{
    float value = 3.5F;
    int8_t small = -7;
    int last = -1;

    checks_step(c, "average of one");
    if (c->rank == c->size - 1) {
        for (int i = 0; i < 3; i++) {
            job_meet(c);
            EXPECT_OK(c,
                    tutti_allreduce(t, "mean", &value, &value, 1, TUTTI_FLOAT32,
                            TUTTI_AVERAGE, NULL));
            EXPECT_OK(c,
                    tutti_allreduce(t, "small mean", &small, &small, 1, TUTTI_INT8,
                            TUTTI_AVERAGE, NULL));
        }
        EXPECT_OK(c, tutti_join(t, NULL, &last));
    } else {
        tutti_request request = TUTTI_REQUEST_NULL;

        EXPECT_OK(c, tutti_join_async(t, NULL, &last, &request));
        for (int i = 0; i < 3; i++) {
            job_meet(c);
        }
        EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    }
    EXPECT(c, value > 3.4F && value < 3.6F && small == -7 && last == c->size - 1);
}

void suite_join(tutti *t, struct checks *c)
{
    uneven_epochs(t, c);
    in_a_deep_tree(c);
    asynchronous(t, c);
    average_of_one(t, c);
    if (c->size > 1) {
        what_came_before_counts(t, c);
        submissions_while_joined(t, c);
        others_are_refused(t, c);
        groups(t, c);
        rows_of_the_joined(t, c);
        sets_are_refused(t, c);
    }
    if (c->size > 2) {
        on_a_process_set(t, c);
    }
}
