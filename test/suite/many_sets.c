/*
 * Splitting the world, and a hundred process sets that come and go while other threads
 * work in the world and in sets of their own.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64,
    SETS = 100,
    SETS_OF_MANY_RANKS = 24,
    WAVES = 4,
    TENSORS = 3,
    ROUNDS = 60
};

/* ------------------------------------------------------------------- split */

/* The members of this rank's color, in the order that keys ask for. */
static int expect_members(const struct checks *c, const int *color, const int *key,
        int mine, int *members)
{
    int n = 0;

    for (int r = 0; r < c->size; r++) {
        if (color[r] == mine) {
            int at = n++;

            for (; at > 0 && key[members[at - 1]] > key[r]; at--) {
                members[at] = members[at - 1];
            }
            members[at] = r;
        }
    }
    return n;
}

static void split_by(
        tutti *t, struct checks *c, int (*color_of)(int), int (*key_of)(int))
{
    int color[RANKS_MAX];
    int key[RANKS_MAX];
    int members[RANKS_MAX];
    int ranks[RANKS_MAX];
    tutti_process_set set = 77;
    int size = 0;
    int n;

    for (int r = 0; r < c->size; r++) {
        color[r] = color_of(r);
        key[r] = key_of(r);
    }
    EXPECT_OK(c, tutti_process_set_split(t, color[c->rank], key[c->rank], &set));
    if (color[c->rank] == TUTTI_UNDEFINED) {
        EXPECT(c, set == TUTTI_WORLD);
    } else {
        n = expect_members(c, color, key, color[c->rank], members);
        EXPECT_OK(c, tutti_process_set_info(t, set, &size, NULL));
        EXPECT_OK(c, tutti_process_set_ranks(t, set, ranks, RANKS_MAX));
        EXPECT(c, set != TUTTI_WORLD && size == n);
        EXPECT(c, memcmp(ranks, members, (size_t)n * sizeof *ranks) == 0);
    }
}

/* Handles count up; all that a split made are removed by everybody. */
static void remove_from(tutti *t, struct checks *c, tutti_process_set first)
{
    int size = 0;

    for (tutti_process_set set = first;
            tutti_process_set_info(t, set, &size, NULL) == TUTTI_OK; set++) {
        EXPECT_OK(c, tutti_process_set_destroy(t, set));
    }
}

static int zero(int rank)
{
    (void)rank;
    return 0;
}

static int half(int rank)
{
    return rank % 2;
}

static int own(int rank)
{
    return 1000 - rank;
}

static int all_but_one(int rank)
{
    return rank == 1 ? TUTTI_UNDEFINED : 5;
}

static int backwards(int rank)
{
    return -rank;
}

static int twos(int rank)
{
    return rank / 2;
}

static int undefined(int rank)
{
    (void)rank;
    return TUTTI_UNDEFINED;
}

/* The next handle that will be given. */
static tutti_process_set next_set(tutti *t, struct checks *c)
{
    const int first[] = { 0 };
    tutti_process_set set = 0;

    EXPECT_OK(c, tutti_process_set_create(t, first, 1, &set));
    EXPECT_OK(c, tutti_process_set_destroy(t, set));
    return set + 1;
}

static void splits(tutti *t, struct checks *c)
{
    const tutti_process_set first = next_set(t, c);
    tutti_process_set set = 77;

    checks_step(c, "split");
    split_by(t, c, zero, zero);
    split_by(t, c, half, backwards);
    split_by(t, c, own, zero);
    split_by(t, c, all_but_one, half);
    split_by(t, c, twos, own);
    split_by(t, c, undefined, zero);
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_process_set_split(t, -2, 0, &set));
    checks_list(c, 0, "split with color -2", TUTTI_ERR_INVALID, tutti_last_error());
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_process_set_split(t, 0, 0, NULL));
    EXPECT(c, set == 77);
    remove_from(t, c, first);
}

/* ---------------------------------------------------------------- many sets */

/** A set and what is done in it. */
struct member_set {
    struct crew crew;
    int ranks[RANKS_MAX];
    struct operation operations[TENSORS];
    struct flight flights[TENSORS];
};

/* Some ranks, in their order or against it; of every fifth set all. */
static void choose_members(struct member_set *m, const struct checks *c, int k)
{
    const int start = (int)(pattern_mix(21, (uint64_t)k) % (uint64_t)c->size);

    m->crew = (struct crew){ .world = m->ranks, .index = -1 };
    for (int i = 0; i < c->size; i++) {
        const int rank = (k % 2 == 0 ? start + i : start + c->size - i) % c->size;

        if (i == 0 || k % 5 == 0 || pattern_mix((uint64_t)k, (uint64_t)rank) % 3 == 0) {
            m->crew.index = rank == c->rank ? m->crew.size : m->crew.index;
            m->ranks[m->crew.size++] = rank;
        }
    }
}

static void make(tutti *t, struct checks *c, struct member_set *m, int k)
{
    int ranks[RANKS_MAX];
    int size = 0;
    int rank = -2;

    choose_members(m, c, k);
    for (int i = 0; i < TENSORS; i++) {
        m->operations[i] = operation_random(
                m->crew.size, pattern_mix(31, (uint64_t)(TENSORS * k + i)));
    }
    EXPECT_OK(c, tutti_process_set_create(t, m->ranks, m->crew.size, &m->crew.set));
    EXPECT_OK(c, tutti_process_set_info(t, m->crew.set, &size, &rank));
    EXPECT(c, size == m->crew.size && rank == m->crew.index);
    EXPECT_OK(c, tutti_process_set_ranks(t, m->crew.set, ranks, RANKS_MAX));
    EXPECT(c, memcmp(ranks, m->ranks, (size_t)size * sizeof *ranks) == 0);
    EXPECT_STATUS(c, TUTTI_ERR_INVALID,
            tutti_process_set_ranks(t, m->crew.set, ranks, size - 1));
}

static void make_again(tutti *t, struct checks *c, struct member_set *m, int k)
{
    const tutti_process_set old = m->crew.set;

    EXPECT_OK(c, tutti_process_set_destroy(t, old));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_process_set_info(t, old, NULL, NULL));
    make(t, c, m, k);
    EXPECT(c, m->crew.set != old);
}

/* In all sets at once, each rank in an order of its own. */
static void work_once(
        tutti *t, struct checks *c, struct member_set *sets, int n, int wave)
{
    int order[SETS * TENSORS];
    char name[32];

    pattern_shuffle(order, n * TENSORS, (uint64_t)(100 * wave + c->rank));
    for (int i = 0; i < n * TENSORS; i++) {
        struct member_set *m = &sets[order[i] / TENSORS];
        const int k = order[i] % TENSORS;

        (void)snprintf(name, sizeof name, "of a set %d", k);
        if (m->crew.index >= 0) {
            flight_begin(t, c, &m->flights[k], &m->operations[k], &m->crew, name);
        }
    }
    for (int i = 0; i < n * TENSORS; i++) {
        if (sets[i / TENSORS].crew.index >= 0) {
            flight_end(t, c, &sets[i / TENSORS].flights[i % TENSORS]);
        }
    }
}

/* Names are new, and get their numbers. */
static void work_in_all(tutti *t, struct checks *c, struct member_set *sets, int n)
{
    for (int wave = 0; wave < WAVES; wave++) {
        work_once(t, c, sets, n, wave);
    }
}

/** A thread that works meanwhile. */
struct worker {
    tutti *t;
    struct checks *c;
    tutti_process_set set;
    pthread_t thread;
};

static void *work(void *argument)
{
    const struct worker *w = argument;
    tutti_options options;

    tutti_options_default(&options);
    options.process_set = w->set;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t value = w->c->rank + i;

        EXPECT_OK(w->c,
                tutti_allreduce(w->t, "meanwhile", &value, &value, 1, TUTTI_INT64,
                        TUTTI_SUM, &options));
        EXPECT(w->c,
                value ==
                        (int64_t)w->c->size * (w->c->size - 1) / 2 +
                                (int64_t)i * w->c->size);
    }
    return NULL;
}

static void come_and_go(tutti *t, struct checks *c)
{
    const int n = c->size <= 8 ? SETS : SETS_OF_MANY_RANKS;
    struct member_set *sets = must_alloc(SETS, sizeof *sets);
    int ranks[RANKS_MAX];
    struct worker workers[2] = { { .t = t, .c = c, .set = TUTTI_WORLD },
        { .t = t, .c = c } };

    (void)crew_of_world(c, ranks);
    EXPECT_OK(c, tutti_process_set_create(t, ranks, c->size, &workers[1].set));
    for (int i = 0; i < 2; i++) {
        EXPECT(c, pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    checks_step(c, "create");
    for (int k = 0; k < n; k++) {
        make(t, c, &sets[k], k);
    }
    checks_step(c, "work");
    work_in_all(t, c, sets, n);
    checks_step(c, "destroy and create");
    for (int k = 0; k < n; k += 3) {
        make_again(t, c, &sets[k], SETS + k);
    }
    work_in_all(t, c, sets, n);
    checks_step(c, "destroy");
    for (int k = 0; k < n; k++) {
        const int at = (k * 7) % n;

        EXPECT_OK(c, tutti_process_set_destroy(t, sets[n % 7 == 0 ? k : at].crew.set));
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    EXPECT_OK(c, tutti_process_set_destroy(t, workers[1].set));
    free(sets);
}

void suite_many_sets(tutti *t, struct checks *c)
{
    splits(t, c);
    come_and_go(t, c);
}
