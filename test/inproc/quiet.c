/*
 * What waiting costs the system in a steady state: no looks at the load, and nobody to wake.
 *
 * Ranks that have their cores to themselves do not ask the system for the load: many steps
 * of two ranks, and no sample. Where others compete, which a rank notices by itself (it
 * doubts), nothing is asserted but that doubt comes before a sample: the steps are repeated
 * many times, but not for ever: each takes some switches of context then.
 */
#include <pthread.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "base/clock.h"
#include "run/context.h"
#include "test/unit/unit.h"

#define TRY_NS INT64_C(30000000000)
#define ALONE_NS 100000000

enum {
    RANKS = 2,
    STEPS = 1000,
    LENGTH_NS = 2000000, /* of a stretch: several times what separates two samples */
    TRIES = 200,
    ENOUGH = 20 /* stretches that were left alone */
};

/** A rank: a thread with a context. */
struct rank {
    tutti *t;
    bool failed;
    bool asked; /* samples without a doubt                                      */
    int64_t limit_ns; /* enough time for it all                                      */
    int tries; /* stretches so far                                            */
    int quiet; /* stretches that were left alone                               */
    pthread_t thread;
};

static void step(struct rank *rank, int32_t *value)
{
    rank->failed = tutti_allreduce(rank->t, "value", value, value, 1, TUTTI_INT32,
                           TUTTI_MIN, NULL) != TUTTI_OK ||
            rank->failed;
}

/*
 * A stretch of steps, and what this rank asked the system meanwhile. Returns true when every
 * rank had seen enough, or found the time over: all do as many steps.
 */
static bool stretch(struct rank *rank)
{
    const struct cpu_load before = rank->t->driver.load;
    const int64_t start_ns = clock_ns();
    const bool knows = before.samples > 0 && before.idle >= 0 && !before.doubted;
    int32_t is_over = start_ns >= rank->limit_ns || rank->quiet >= ENOUGH;

    for (int i = 0; i < STEPS; i++) {
        step(rank, &is_over);
    }
    if (knows && rank->t->driver.load.doubts == before.doubts) {
        rank->asked = rank->asked || rank->t->driver.load.samples != before.samples;
        rank->quiet += clock_ns() - start_ns >= LENGTH_NS ? 1 : 0;
    }
    return is_over != 0;
}

static void *rank_main(void *argument)
{
    struct rank *rank = argument;

    do {
        rank->tries++;
    } while (!stretch(rank) && rank->tries < TRIES);
    rank->failed = tutti_finalize(rank->t) != TUTTI_OK || rank->failed;
    return NULL;
}

UNIT_TEST(test_a_steady_state_asks_nothing)
{
    tutti *contexts[RANKS];
    struct rank ranks[RANKS] = { { .quiet = 0 } };
    const int64_t limit_ns = clock_ns() + TRY_NS;

    ASSERT_OK(tutti_init_local(RANKS, contexts, NULL));
    for (int r = 0; r < RANKS; r++) {
        ranks[r].t = contexts[r];
        ranks[r].limit_ns = limit_ns;
        assert_int_equal(
                pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_false(ranks[r].failed);
        assert_false(ranks[r].asked);
        print_message("rank %d: %d of %d stretches were left alone\n", r,
                ranks[r].quiet, ranks[r].tries);
        if (ranks[r].quiet == 0) {
            print_message("others compete for the cores: nothing was shown\n");
            skip();
        }
    }
}

static void submit_and_wait(tutti *t)
{
    tutti_request request;
    int32_t value = 1;

    ASSERT_OK(tutti_allreduce_async(
            t, "value", &value, &value, 1, TUTTI_INT32, TUTTI_MAX, NULL, &request));
    ASSERT_OK(tutti_wait(t, &request, TUTTI_FOREVER));
}

/* Also where this process is bound: others may be on its cores. */
static bool others_compete(void)
{
    struct cpu_load load;
    bool compete;

    cpu_load_init(&load);
    load.bound = false;
    compete = cpu_load_idle(&load, clock_ns()) < 0;
    cpu_load_fini(&load);
    return compete;
}

/*
 * The background thread has nothing to do where every submission is waited for at once: it
 * no longer sleeps where submissions must wake it, over several of its naps. A preempted
 * rank gives it something to do, so that it starts anew: hence the many tries.
 */
UNIT_TEST(test_submissions_soon_wake_nobody)
{
    const int64_t limit_ns = clock_ns() + TRY_NS;
    int64_t since_ns = clock_ns();
    int sleeps = 0;
    int beside_others = 0; /* of these */
    tutti *t;

    ASSERT_OK(tutti_init_local(1, &t, NULL));
    assert_true(t->driver.has_background);
    while (clock_ns() - since_ns < ALONE_NS && clock_ns() < limit_ns) {
        if (doorbell_has_sleepers(&t->driver.park_bell)) {
            sleeps++;
            beside_others += others_compete() ? 1 : 0;
            since_ns = clock_ns();
        }
        submit_and_wait(t);
    }
    if (clock_ns() - since_ns < ALONE_NS && 2 * beside_others > sleeps) {
        ASSERT_OK(tutti_finalize(t));
        print_message("others compete for the cores: nothing was shown\n");
        skip();
    }
    assert_true(clock_ns() - since_ns >= ALONE_NS);

    /* With nothing to do at all it sleeps for good. */
    while (!doorbell_has_sleepers(&t->driver.park_bell)) {
        clock_sleep_ns(1000000);
    }
    ASSERT_OK(tutti_finalize(t));
}
