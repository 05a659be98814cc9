/*
 * Process sets: what is refused, lists that differ, who is a member, and threads that make
 * sets at the same time. many_sets.c has the traffic.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64
};

static void refused_creations(tutti *t, struct checks *c)
{
    const int twice[] = { 0, 0 };
    const int outside[] = { c->size };
    const int negative[] = { -1 };
    const int good[] = { 0 };
    tutti_process_set set = 77;
    int size = 0;
    int rank = -2;

    checks_step(c, "refused");
    checks_refused(c, "process set of 0 ranks", TUTTI_ERR_INVALID,
            tutti_process_set_create(t, good, 0, &set));
    checks_refused(c, "process set of ranks NULL", TUTTI_ERR_INVALID,
            tutti_process_set_create(t, NULL, 1, &set));
    checks_refused(c, "process set into NULL", TUTTI_ERR_INVALID,
            tutti_process_set_create(t, good, 1, NULL));
    checks_refused(c, "process set with a rank twice", TUTTI_ERR_INVALID,
            tutti_process_set_create(t, twice, 2, &set));
    checks_refused(c, "process set with a rank that is not there", TUTTI_ERR_INVALID,
            tutti_process_set_create(t, outside, 1, &set));
    checks_refused(c, "process set with rank -1", TUTTI_ERR_INVALID,
            tutti_process_set_create(t, negative, 1, &set));
    EXPECT(c, set == 77);
    checks_refused(c, "removal of the world", TUTTI_ERR_INVALID,
            tutti_process_set_destroy(t, TUTTI_WORLD));
    checks_refused(c, "removal of an unknown set", TUTTI_ERR_INVALID,
            tutti_process_set_destroy(t, 987654));
    EXPECT_OK(c, tutti_process_set_info(t, TUTTI_WORLD, &size, &rank));
    EXPECT(c, size == c->size && rank == c->rank);
}

/* Lists that differ, also in their order only, fail everywhere alike. */
static void different_lists(tutti *t, struct checks *c)
{
    const int forward[] = { 0, 1 };
    const int backward[] = { 1, 0 };
    const bool last = c->rank == c->size - 1;
    tutti_process_set set = 77;

    checks_step(c, "different lists");
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
            tutti_process_set_create(t, last ? backward : forward, 2, &set));
    EXPECT(c, strstr(tutti_last_error(), "[0, 1]") != NULL);
    EXPECT(c, strstr(tutti_last_error(), "[1, 0]") != NULL);
    job_same_text(c, t, "message", tutti_last_error());
    EXPECT(c, set == 77);
    EXPECT_OK(c, tutti_process_set_create(t, backward, 2, &set));
    EXPECT_OK(c, tutti_process_set_destroy(t, set));
}

/* A non-member is refused; work in flight keeps a set alive. */
static void members_only(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    tutti_process_set set = 0;
    tutti_options options;
    tutti_request request = TUTTI_REQUEST_NULL;
    const bool last = c->rank == c->size - 1;

    checks_step(c, "members only");
    for (int i = 0; i < c->size - 1; i++) {
        ranks[i] = i;
    }
    EXPECT_OK(c, tutti_process_set_create(t, ranks, c->size - 1, &set));
    tutti_options_default(&options);
    options.process_set = set;
    if (last) {
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_barrier(t, "members", &options));
        EXPECT(c, strstr(tutti_last_error(), "no member") != NULL);
    } else if (c->size > 2 && c->rank > 0) {
        EXPECT_OK(c, tutti_barrier_async(t, "members", &options, &request));
        EXPECT_STATUS(c, TUTTI_ERR_DUPLICATE, tutti_process_set_destroy(t, set));
    }
    job_meet(c);
    if (c->rank == 0) {
        EXPECT_OK(c, tutti_barrier_async(t, "members", &options, &request));
    }
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_process_set_destroy(t, set));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_barrier(t, "members", &options));
}

/* All sets, of members or not, in ascending order; what there is no room for is counted. */
static void listed(tutti *t, struct checks *c)
{
    const int first[] = { 0 };
    tutti_process_set made[2] = { 0 };
    tutti_process_set sets[4] = { 77, 77, 77, 77 };
    int count = -1;

    checks_step(c, "listed");
    checks_refused(c, "list of process sets without a count", TUTTI_ERR_INVALID,
            tutti_process_set_list(t, sets, 4, NULL));
    checks_refused(c, "list of process sets into NULL", TUTTI_ERR_INVALID,
            tutti_process_set_list(t, NULL, 1, &count));
    checks_refused(c, "list of -1 process sets", TUTTI_ERR_INVALID,
            tutti_process_set_list(t, sets, -1, &count));
    EXPECT(c, count == -1);
    EXPECT_OK(c, tutti_process_set_create(t, first, 1, &made[0]));
    EXPECT_OK(c, tutti_process_set_create(t, first, 1, &made[1]));
    EXPECT_OK(c, tutti_process_set_list(t, sets, 2, &count));
    EXPECT(c, count == 3 && sets[0] == TUTTI_WORLD && sets[1] == made[0]);
    EXPECT(c, sets[2] == 77);
    EXPECT_OK(c, tutti_process_set_destroy(t, made[0]));
    EXPECT_OK(c, tutti_process_set_list(t, sets, 4, &count));
    EXPECT(c, count == 2 && sets[0] == TUTTI_WORLD && sets[1] == made[1]);
    EXPECT_OK(c, tutti_process_set_destroy(t, made[1]));
    EXPECT_OK(c, tutti_process_set_list(t, NULL, 0, &count));
    EXPECT(c, count == 1);
}

/* The name that a split once had is anybody's. */
static void no_name_of_users(tutti *t, struct checks *c)
{
    const bool last = c->rank == c->size - 1;
    BUFFER_ARRAY(int64_t, mine, 1);
    BUFFER_ARRAY(int64_t, all, RANKS_MAX);
    tutti_process_set set = 0;
    tutti_request request = TUTTI_REQUEST_NULL;

    checks_step(c, "split beside a tensor of its name");
    *mine = c->rank;
    for (int turn = 0; turn < 2; turn++) {
        if (last == (turn == 1)) {
            EXPECT_OK(c,
                    tutti_allgather_async(t, "tutti_process_set_split", mine, all, 1, 1,
                            NULL, TUTTI_INT64, NULL, &request));
        }
        if (turn == 0) {
            EXPECT_OK(c, tutti_process_set_split(t, 0, 0, &set));
        }
    }
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    for (int i = 0; i < c->size; i++) {
        EXPECT(c, all[i] == i);
    }
    EXPECT_OK(c, tutti_process_set_destroy(t, set));
}

/* A rank creates while the others split: an error everywhere, and no set. */
static void create_against_split(tutti *t, struct checks *c)
{
    const int ranks[] = { 0, 1 };
    tutti_process_set set = 77;

    checks_step(c, "create against split");
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
            c->rank == 0 ? tutti_process_set_create(t, ranks, 2, &set)
                         : tutti_process_set_split(t, 0, 0, &set));
    EXPECT(c, set == 77);
    job_same_text(c, t, "message", tutti_last_error());
}

/** A thread of a rank that makes sets beside others. */
struct maker {
    tutti *t;
    struct checks *c;
    bool splits;
    pthread_t thread;
};

static void *make_and_destroy(void *argument)
{
    struct maker *maker = argument;
    struct checks *c = maker->c;
    int ranks[RANKS_MAX];

    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    for (int i = 0; i < 10; i++) {
        tutti_process_set set = 0;
        int size = 0;

        EXPECT_OK(c,
                maker->splits
                        ? tutti_process_set_split(maker->t, 0, 0, &set)
                        : tutti_process_set_create(maker->t, ranks, c->size, &set));
        EXPECT_OK(c, tutti_process_set_info(maker->t, set, &size, NULL));
        EXPECT(c, set != TUTTI_WORLD && size == c->size);
        EXPECT_OK(c, tutti_process_set_destroy(maker->t, set));
    }
    return NULL;
}

/* Calls of several threads of a rank come one after the other. */
static void several_threads(tutti *t, struct checks *c, bool splits)
{
    struct maker makers[3];

    checks_step(c, splits ? "threads that split" : "threads that create");
    for (int i = 0; i < 3; i++) {
        makers[i] = (struct maker){ .t = t, .c = c, .splits = splits };
        EXPECT(c,
                pthread_create(&makers[i].thread, NULL, make_and_destroy, &makers[i]) ==
                        0);
    }
    for (int i = 0; i < 3; i++) {
        (void)pthread_join(makers[i].thread, NULL);
    }
}

void suite_sets(tutti *t, struct checks *c)
{
    refused_creations(t, c);
    listed(t, c);
    several_threads(t, c, false);
    several_threads(t, c, true);
    no_name_of_users(t, c);
    if (c->size > 1) {
        different_lists(t, c);
        members_only(t, c);
        create_against_split(t, c);
    }
}
