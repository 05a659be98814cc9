/*
 * The bound of staleness: no worker reads beyond it, one that is too fast waits, and a server
 * that breaks it is noticed.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "model.h"
#include "ranks.h"
#include "server/server.h"
#include "test/unit/unit.h"

enum {
    BOUND = 2,
    CLOCKS = 8,
    SLOW_ROUNDS = 3,
    NEVER = CLOCKS + BOUND + 1
};

/* What the workers tell each other outside of tutti. */
struct race {
    int planted; /* staleness that the server grants by mistake; 0: none     */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int entered; /* clock at which the fast worker has last begun to pull     */
    bool lost; /* the fast worker has given up                              */
    atomic_int begun; /* pushes that the slow worker has begun                     */
};

static void note_entry(struct race *race, int clock, bool lost)
{
    pthread_mutex_lock(&race->lock);
    race->entered = clock;
    race->lost = lost;
    pthread_cond_signal(&race->moved);
    pthread_mutex_unlock(&race->lock);
}

/* Until the fast worker is about to read at a clock. */
static bool await_entry(struct race *race, int clock)
{
    bool lost;

    pthread_mutex_lock(&race->lock);
    while (race->entered < clock && !race->lost) {
        pthread_cond_wait(&race->moved, &race->lock);
    }
    lost = race->lost;
    pthread_mutex_unlock(&race->lock);
    return !lost;
}

/*
 * Pushes as soon as it may. What it reads at clock c must hold c - BOUND pushes of the other,
 * which therefore has begun them.
 */
static tutti_status run_fast(tutti_server *ps, struct race *race)
{
    tutti_status status = tutti_server_pull(ps);

    for (int clock = 1; clock <= CLOCKS && status == TUTTI_OK; clock++) {
        status = tutti_server_push(ps);
        note_entry(race, clock, false);
        if (status == TUTTI_OK) {
            status = tutti_server_pull(ps);
        }
        CHECK(status != TUTTI_OK || atomic_load(&race->begun) >= clock - BOUND);
    }
    note_entry(race, NEVER, status != TUTTI_OK);
    return status == TUTTI_OK ? tutti_server_finish(ps) : status;
}

/*
 * Pushes only when the other has to wait for it, after some rounds in which the server would
 * have let it go.
 */
static tutti_status run_slow(tutti_server *ps, struct race *race)
{
    tutti_status status = tutti_server_pull(ps);

    for (int push = 1; push <= CLOCKS - BOUND && status == TUTTI_OK; push++) {
        /* With a broken server the other never waits: this one then does not push at all. */
        if (!await_entry(race, race->planted > 0 ? NEVER : push + BOUND)) {
            break;
        }
        for (int i = 0; i < SLOW_ROUNDS && status == TUTTI_OK; i++) {
            status = tutti_server_pull(ps);
        }
        (void)atomic_fetch_add(&race->begun, 1);
        if (status == TUTTI_OK) {
            status = tutti_server_push(ps);
        }
    }
    (void)await_entry(race, NEVER); /* who is finished is not waited for */
    return status == TUTTI_OK ? tutti_server_finish(ps) : status;
}

static void run_race(tutti *t, void *user)
{
    struct race *race = user;
    struct model model;
    tutti_server_options options;
    tutti_server_report report = { .size = sizeof report };
    tutti_server *ps;
    tutti_status status;
    tutti_status expected = race->planted > 0 ? TUTTI_ERR_PROTOCOL : TUTTI_OK;

    tutti_server_options_default(&options);
    options.mode = TUTTI_SERVER_SSP;
    options.staleness = BOUND;
    options.servers = 2;
    options.split_bytes = 256;
    model_init(&model, 1.0F);
    if (!CHECK(tutti_server_create(t, model.params, MODEL_PARAMS, &options, &ps) ==
                TUTTI_OK)) {
        return;
    }
    if (tutti_server_role(ps) == TUTTI_ROLE_SERVER) {
        if (race->planted > 0) {
            ps->options.staleness = race->planted;
        }
        status = tutti_server_serve(ps);
        expected = race->planted > 0 ? TUTTI_ERR_CONTEXT_FAILED : TUTTI_OK;
    } else if (tutti_rank(t) == 0) {
        status = run_fast(ps, race);
        CHECK(tutti_server_report_get(ps, &report) == TUTTI_OK);
        CHECK(report.staleness <= BOUND);
        CHECK(race->planted > 0 || report.staleness == BOUND);
        CHECK(race->planted > 0 || report.histogram[BOUND] == CLOCKS - BOUND + 1);
    } else {
        status = run_slow(ps, race);
        expected = race->planted > 0 ? TUTTI_ERR_CONTEXT_FAILED : TUTTI_OK;
    }
    CHECK(status == expected);
    CHECK(tutti_server_destroy(ps) == TUTTI_OK);
}

static int run(int planted)
{
    struct race race = { .planted = planted,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .moved = PTHREAD_COND_INITIALIZER };

    return ranks_run(4, run_race, &race);
}

UNIT_TEST(test_the_bound_is_kept_and_who_is_too_fast_waits)
{
    assert_int_equal(run(0), 0);
}

UNIT_TEST(test_a_pull_beyond_the_bound_is_noticed)
{
    assert_int_equal(run(BOUND + 1), 0);
}
