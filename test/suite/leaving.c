/*
 * A rank that finalizes while others still work: what they can only do with it fails with
 * a reason that names it, and nobody hangs; what it had submitted counts.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64
};

/* Ranks that pass on what others announce, in worlds of any size. */
static const struct setting deep[] = { { "tree_fanout", "2" }, { 0 } };

/* The words about the last rank. */
static void check_words(struct checks *c, const char *name)
{
    char words[64];

    (void)snprintf(
            words, sizeof words, "rank %d has called tutti_finalize()", c->size - 1);
    EXPECT(c, strstr(tutti_last_error(), name) != NULL);
    if (!EXPECT(c, strstr(tutti_last_error(), words) != NULL)) {
        (void)fprintf(stderr, "\"%s\" is not in: %s\n", words, tutti_last_error());
    }
}

static struct operation operation_of(int collective)
{
    return (struct operation){ .collective = (tutti_collective)collective,
        .pattern = { TUTTI_INT32, TUTTI_SUM, (uint32_t)collective },
        .scales = { 1, 1 },
        .count = 64,
        .row_count = 1 };
}

/* Every collective, with names that are new and names that have numbers. */
static void one_rank_finalizes(struct checks *c, bool numbered)
{
    tutti *t = job_open(c, deep);
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);

    checks_step(c, "one rank finalizes");
    for (int i = 0; i < (numbered ? 3 : 0) * (TUTTI_SCATTER + 1); i++) {
        const struct operation o = operation_of(i % (TUTTI_SCATTER + 1));
        struct flight flight;

        if (o.collective != TUTTI_BARRIER) {
            flight_begin(t, c, &flight, &o, &world, "left alone");
            flight_end(t, c, &flight);
        }
    }
    for (int i = 0; i <= TUTTI_SCATTER && c->rank < c->size - 1; i++) {
        const struct operation o = operation_of(i);
        struct flight flight;

        if (i == TUTTI_BARRIER) {
            EXPECT_STATUS(c, TUTTI_ERR_FINALIZED, tutti_barrier(t, "left alone", NULL));
        } else {
            flight_begin(t, c, &flight, &o, &world, "left alone");
            flight_fail(t, c, &flight, TUTTI_ERR_FINALIZED);
        }
        check_words(c, "left alone");
        checks_list(c, numbered ? -1 : 0, "a rank has finalized", TUTTI_ERR_FINALIZED,
                tutti_last_error());
    }
    EXPECT_OK(c, tutti_finalize(t));
}

static void new_names(struct checks *c)
{
    one_rank_finalizes(c, false);
}

static void numbered_names(struct checks *c)
{
    one_rank_finalizes(c, true);
}

static void count_ok(void *user, tutti_status status, const char *message)
{
    _Atomic int *count = user;

    (void)message;
    (void)atomic_fetch_add(count, status == TUTTI_OK ? 1 : 100);
}

/* The last rank submits and leaves without waiting; the others come later. */
static void work_in_flight_counts(struct checks *c)
{
    tutti *t = job_open(c, deep);
    const bool leaves = c->rank == c->size - 1;
    tutti_options options;
    int32_t values[8];
    _Atomic int done = 0;
    char name[32];

    checks_step(c, "work in flight counts");
    tutti_options_default(&options);
    options.callback = count_ok;
    options.user = &done;
    for (int i = 0; i < 8; i++) {
        values[i] = 1;
        (void)snprintf(name, sizeof name, "in flight %d", i);
        if (!leaves) {
            EXPECT_OK(c,
                    tutti_allreduce(t, name, &values[i], &values[i], 1, TUTTI_INT32,
                            TUTTI_SUM, NULL));
        } else {
            EXPECT_OK(c,
                    tutti_allreduce_async(t, name, &values[i], &values[i], 1,
                            TUTTI_INT32, TUTTI_SUM, &options, NULL));
        }
    }
    EXPECT_OK(c, tutti_finalize(t));
    EXPECT(c, !leaves || atomic_load(&done) == 8);
    for (int i = 0; i < 8; i++) {
        EXPECT(c, values[i] == c->size);
    }
}

/* They go one after the other; whoever is left is told of all that have gone. */
static void one_after_the_other(struct checks *c)
{
    tutti *t = job_open(c, deep);

    checks_step(c, "one after the other");
    for (int step = 0; step <= c->size - 1 - c->rank; step++) {
        int32_t value = 1;

        EXPECT_STATUS(c, step == 0 ? TUTTI_OK : TUTTI_ERR_FINALIZED,
                tutti_allreduce(t, "fewer and fewer", &value, &value, 1, TUTTI_INT32,
                        TUTTI_SUM, NULL));
        EXPECT(c, value == (step == 0 ? c->size : 1));
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* A group needs all of its members on all ranks. */
static void groups_fail_as_one(struct checks *c)
{
    tutti *t = job_open(c, deep);
    tutti_request requests[2] = { 0 };
    tutti_status statuses[2] = { 0 };
    int32_t values[2] = { 1, 1 };

    checks_step(c, "groups fail as one");
    if (c->rank < c->size - 1) {
        EXPECT_OK(c, tutti_group_begin(t));
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(c,
                    tutti_allreduce_async(t, i == 0 ? "one" : "two", &values[i],
                            &values[i], 1, TUTTI_INT32, TUTTI_SUM, NULL, &requests[i]));
        }
        EXPECT_OK(c, tutti_group_end(t));
        EXPECT_STATUS(c, TUTTI_ERR_FINALIZED,
                tutti_wait_all(t, 2, requests, TUTTI_FOREVER, statuses));
        EXPECT(c, statuses[0] == TUTTI_ERR_FINALIZED);
        EXPECT(c, statuses[1] == TUTTI_ERR_FINALIZED);
        EXPECT(c, values[0] == 1 && values[1] == 1);
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* Who has joined waits for the others to join, not for them to finalize. */
static void joins_fail(struct checks *c)
{
    tutti *t = job_open(c, deep);
    int last = 77;

    checks_step(c, "joins fail");
    if (c->rank < c->size - 1) {
        EXPECT_STATUS(c, TUTTI_ERR_FINALIZED, tutti_join(t, NULL, &last));
        check_words(c, "join");
        checks_list(c, 0, "a rank finalizes instead of joining", TUTTI_ERR_FINALIZED,
                tutti_last_error());
        EXPECT(c, last == 77);
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* The sets that a rank is in learn of it at once, whichever it works in last. */
static void on_process_sets(struct checks *c, bool in_world)
{
    tutti *t = job_open(c, deep);
    int ranks[RANKS_MAX];
    tutti_process_set set = TUTTI_WORLD;
    tutti_process_set other = TUTTI_WORLD;
    tutti_options options;
    int32_t value = 1;

    checks_step(c, "on process sets");
    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    EXPECT_OK(c, tutti_process_set_create(t, ranks, c->size, &set));
    EXPECT_OK(c, tutti_process_set_create(t, ranks, c->size, &other));
    tutti_options_default(&options);
    options.process_set = in_world ? TUTTI_WORLD : set;
    if (c->rank < c->size - 1) {
        EXPECT_STATUS(c, TUTTI_ERR_FINALIZED,
                tutti_allreduce(t, "of a set", &value, &value, 1, TUTTI_INT32,
                        TUTTI_SUM, &options));
        check_words(c, "of a set");
        EXPECT_STATUS(
                c, TUTTI_ERR_FINALIZED, tutti_process_set_create(t, ranks, 1, &other));
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* Sets without that rank go on. */
static void others_go_on(struct checks *c)
{
    tutti *t = job_open(c, deep);
    int ranks[RANKS_MAX];
    tutti_process_set set = TUTTI_WORLD;
    tutti_options options;

    checks_step(c, "others go on");
    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    EXPECT_OK(c, tutti_process_set_create(t, ranks, c->size - 1, &set));
    tutti_options_default(&options);
    options.process_set = set;
    for (int i = 0; i < 5 && c->rank < c->size - 1; i++) {
        int32_t value = 1;

        EXPECT_OK(c,
                tutti_allreduce(t, "of the others", &value, &value, 1, TUTTI_INT32,
                        TUTTI_SUM, &options));
        EXPECT(c, value == c->size - 1);
    }
    EXPECT_OK(c, tutti_finalize(t));
}

void suite_leaving(tutti *t, struct checks *c)
{
    (void)t;
    if (c->size == 1) {
        return;
    }
    new_names(c);
    numbered_names(c);
    work_in_flight_counts(c);
    one_after_the_other(c);
    groups_fail_as_one(c);
    joins_fail(c);
    on_process_sets(c, false);
    on_process_sets(c, true);
    others_go_on(c);
}
