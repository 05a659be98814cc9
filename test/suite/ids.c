/*
 * Submission by id, where it takes no lock: from many threads at once, competing for one
 * id, by id and by name, while registrations come and go, against joining and finalizing,
 * and before the last request was consumed.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "test/suite/suite.h"

enum {
    THREADS = 4,
    IDS = 3, /* of each thread                        */
    ROUNDS = 20,
    DAYS = 5, /* registrations of each thread, one after the other */
    RACES = 20
};

static tutti_tensor_desc sum_of(const char *name)
{
    return (tutti_tensor_desc){ .size = sizeof(tutti_tensor_desc),
        .name = name,
        .collective = TUTTI_ALLREDUCE,
        .count = 1,
        .dtype = TUTTI_INT64,
        .op = TUTTI_SUM };
}

static tutti_tensor register_sum(tutti *t, struct checks *c, const char *name)
{
    const tutti_tensor_desc desc = sum_of(name);
    tutti_tensor tensor = 0;

    EXPECT_OK(c, tutti_tensor_register(t, &desc, &tensor));
    return tensor;
}

/** An application thread of a rank. */
struct worker {
    tutti *t;
    struct checks *c;
    int index;
    tutti_tensor tensor; /* that all compete for, or its own       */
    pthread_barrier_t *start;
    int won; /* submissions that were taken            */
    int64_t value;
    tutti_request request;
    pthread_t thread;
};

static void start_workers(struct worker *workers, int count, void *(*work)(void *))
{
    for (int i = 0; i < count; i++) {
        EXPECT(workers[i].c,
                pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
}

static void join_workers(struct worker *workers, int count)
{
    for (int i = 0; i < count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
}

static int64_t sum_over_ranks(int size, int64_t factor)
{
    return factor * size * (size + 1) / 2;
}

/* ------------------------------------------------------------ ids of one's own */

/* Rounds of some ids, which are consumed together or one by one. */
static void use_ids(const struct worker *w, const tutti_tensor *ids)
{
    tutti_request requests[IDS];
    int64_t values[IDS];

    for (int64_t i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < IDS; k++) {
            values[k] = (w->c->rank + 1) * (i + k + w->index);
            EXPECT_OK(w->c,
                    tutti_submit(w->t, ids[k], &values[k], &values[k], TUTTI_NO_STEP,
                            NULL, NULL, &requests[k]));
        }
        if (i % 2 == 0) {
            EXPECT_OK(w->c, tutti_wait(w->t, &requests[1], TUTTI_FOREVER));
        }
        EXPECT_OK(w->c, tutti_wait_all(w->t, IDS, requests, TUTTI_FOREVER, NULL));
        for (int k = 0; k < IDS; k++) {
            EXPECT(w->c, requests[k] == TUTTI_REQUEST_NULL);
            EXPECT(w->c, values[k] == sum_over_ranks(w->c->size, i + k + w->index));
        }
    }
}

static void *register_and_use(void *argument)
{
    const struct worker *w = argument;
    tutti_tensor ids[IDS];
    char name[32];

    for (int day = 0; day < DAYS; day++) {
        for (int k = 0; k < IDS; k++) {
            (void)snprintf(name, sizeof name, "thread %d id %d", w->index, k);
            ids[k] = register_sum(w->t, w->c, name);
        }
        use_ids(w, ids);
        for (int k = 0; k < IDS; k++) {
            EXPECT_OK(w->c, tutti_tensor_unregister(w->t, ids[k]));
            EXPECT_STATUS(
                    w->c, TUTTI_ERR_INVALID, tutti_tensor_unregister(w->t, ids[k]));
        }
    }
    return NULL;
}

/* --------------------------------------------------------- competing for one id */

/* One in three goes by name. */
static void *compete(void *argument)
{
    struct worker *w = argument;
    tutti_status status;

    w->value = w->c->rank + 1;
    (void)pthread_barrier_wait(w->start);
    if (w->index % 3 == 2) {
        status = tutti_allreduce_async(w->t, "contested", &w->value, &w->value, 1,
                TUTTI_INT64, TUTTI_SUM, NULL, &w->request);
    } else {
        status = tutti_submit(w->t, w->tensor, &w->value, &w->value, TUTTI_NO_STEP,
                NULL, NULL, &w->request);
    }
    w->won += status == TUTTI_OK;
    EXPECT(w->c, status == TUTTI_OK || status == TUTTI_ERR_DUPLICATE);
    return NULL;
}

/* Exactly one of the threads of a rank wins. One rank is late, so that nothing ends. */
static void contest(tutti *t, struct checks *c, tutti_tensor tensor, bool late)
{
    struct worker workers[THREADS];
    pthread_barrier_t start;
    const int count = late ? 1 : THREADS;
    int won = 0;

    EXPECT(c, pthread_barrier_init(&start, NULL, (unsigned)count) == 0);
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){
            .t = t, .c = c, .index = i, .tensor = tensor, .start = &start
        };
    }
    if (late) {
        job_meet(c);
    }
    start_workers(workers, count, compete);
    join_workers(workers, count);
    if (!late) {
        job_meet(c);
    }
    for (int i = 0; i < count; i++) {
        won += workers[i].won;
        EXPECT_OK(c, tutti_wait(t, &workers[i].request, TUTTI_FOREVER));
        EXPECT(c,
                workers[i].won == 0 || workers[i].value == sum_over_ranks(c->size, 1));
    }
    EXPECT(c, won == 1);
    (void)pthread_barrier_destroy(&start);
}

static void contests(tutti *t, struct checks *c)
{
    const tutti_tensor tensor = register_sum(t, c, "contested");

    for (int i = 0; i < RACES; i++) {
        contest(t, c, tensor, i % c->size == c->rank);
    }
    EXPECT_OK(c, tutti_tensor_unregister(t, tensor));
}

/* --------------------------------------------------------------- against a join */

/* Until it is refused. */
static void *submit_once(void *argument)
{
    struct worker *w = argument;
    tutti_status status;

    w->value = 1;
    (void)pthread_barrier_wait(w->start);
    status = tutti_submit(w->t, w->tensor, &w->value, &w->value, TUTTI_NO_STEP, NULL,
            NULL, &w->request);
    w->won = status == TUTTI_OK;
    EXPECT(w->c, status == TUTTI_OK || status == TUTTI_ERR_INVALID);
    return NULL;
}

/* What was taken before the join counts, and the rest is refused. */
static void race_with_join(tutti *t, struct checks *c, const tutti_tensor *ids)
{
    struct worker workers[THREADS];
    pthread_barrier_t start;
    tutti_request join = TUTTI_REQUEST_NULL;
    const bool last = c->rank == c->size - 1;

    EXPECT(c, pthread_barrier_init(&start, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .t = t, .c = c, .index = i, .tensor = ids[i], .start = &start
        };
    }
    if (!last) {
        start_workers(workers, THREADS, submit_once);
        (void)pthread_barrier_wait(&start);
        EXPECT_OK(c, tutti_join_async(t, NULL, NULL, &join));
        join_workers(workers, THREADS);
    }
    job_meet(c);
    if (last) {
        EXPECT_OK(c, tutti_join_async(t, NULL, NULL, &join));
    }
    for (int i = 0; i < THREADS; i++) {
        EXPECT_OK(c, tutti_wait(t, &workers[i].request, TUTTI_FOREVER));
        EXPECT(c, workers[i].won == 0 || workers[i].value >= 1);
    }
    EXPECT_OK(c, tutti_wait(t, &join, TUTTI_FOREVER));
    (void)pthread_barrier_destroy(&start);
}

static void races_with_join(tutti *t, struct checks *c)
{
    tutti_tensor ids[THREADS];
    char name[32];

    for (int i = 0; i < THREADS; i++) {
        (void)snprintf(name, sizeof name, "joined %d", i);
        ids[i] = register_sum(t, c, name);
    }
    for (int i = 0; i < RACES; i++) {
        race_with_join(t, c, ids);
    }
    for (int i = 0; i < THREADS; i++) {
        tutti_request request = TUTTI_REQUEST_NULL;
        int64_t value = 1;

        EXPECT_OK(c,
                tutti_submit(t, ids[i], &value, &value, TUTTI_NO_STEP, NULL, NULL,
                        &request));
        EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
        EXPECT(c, value == c->size);
        EXPECT_OK(c, tutti_tensor_unregister(t, ids[i]));
    }
}

/* ----------------------------------------------------- before it was consumed */

static uint64_t completed(tutti *t)
{
    tutti_stats stats = { .size = sizeof stats };

    (void)!tutti_stats_get(t, &stats);
    return stats.completed;
}

/* Submits and lets it end without consuming it; nothing else is in flight. */
static tutti_request submit_and_let_end(
        tutti *t, struct checks *c, tutti_tensor tensor, int64_t *value)
{
    const uint64_t before = completed(t);
    tutti_request request = TUTTI_REQUEST_NULL;

    *value = c->rank + 1;
    EXPECT_OK(c,
            tutti_submit(t, tensor, value, value, TUTTI_NO_STEP, NULL, NULL, &request));
    while (completed(t) == before) {
        (void)sched_yield();
    }
    /* It is counted a moment before it has ended, and has by the end of a later one. */
    EXPECT_OK(c, tutti_barrier(t, "ended", NULL));
    return request;
}

/* The name is free when the operation has ended, whether or not somebody has looked. */
static void not_consumed(tutti *t, struct checks *c)
{
    tutti_tensor tensor = register_sum(t, c, "not consumed");
    tutti_request requests[4] = { 0 };
    int64_t values[4];

    for (int i = 0; i < 3; i++) {
        requests[i] = submit_and_let_end(t, c, tensor, &values[i]);
    }
    EXPECT_OK(c, tutti_tensor_unregister(t, tensor));
    tensor = register_sum(t, c, "not consumed");
    requests[3] = submit_and_let_end(t, c, tensor, &values[3]);
    for (int i = 0; i < 4; i++) {
        tutti_request again = requests[i];

        EXPECT_OK(c, tutti_wait(t, &requests[i], TUTTI_FOREVER));
        EXPECT(c, values[i] == sum_over_ranks(c->size, 1));
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_wait(t, &again, TUTTI_FOREVER));
    }
    EXPECT_OK(c, tutti_tensor_unregister(t, tensor));
}

/* --------------------------------------------------------- against a finalize */

/** A tensor that its callback submits again, for ever. */
struct chain {
    tutti *t;
    struct checks *c;
    tutti_tensor tensor;
    int64_t value;
    _Atomic int links, cut_off; /* ends: done, and cut off by finalize */
    _Atomic bool refused; /* could not submit again              */
};

static void submit_again(void *user, tutti_status status, const char *message)
{
    struct chain *chain = user;
    tutti_status again;

    EXPECT(chain->c, (status == TUTTI_OK) == (message[0] == '\0'));
    if (status != TUTTI_OK) {
        EXPECT_STATUS(chain->c, TUTTI_ERR_FINALIZED, status);
        (void)atomic_fetch_add(&chain->cut_off, 1);
        return;
    }
    (void)atomic_fetch_add(&chain->links, 1);
    again = tutti_submit(chain->t, chain->tensor, &chain->value, &chain->value,
            TUTTI_NO_STEP, submit_again, chain, NULL);
    EXPECT(chain->c, again == TUTTI_OK || again == TUTTI_ERR_FINALIZED);
    atomic_store(&chain->refused, again != TUTTI_OK);
}

/* Every operation that was taken ends, in one way or the other, and nothing is taken later. */
static void race_with_finalize(struct checks *c)
{
    tutti *t = job_open(c, NULL);
    struct chain chain = { .t = t, .c = c };

    chain.tensor = register_sum(t, c, "chain");
    EXPECT_OK(c,
            tutti_submit(t, chain.tensor, &chain.value, &chain.value, TUTTI_NO_STEP,
                    submit_again, &chain, NULL));
    while (atomic_load(&chain.links) < 10) {
        (void)sched_yield();
    }
    EXPECT_OK(c, tutti_finalize(t));
    EXPECT(c, atomic_load(&chain.cut_off) == (atomic_load(&chain.refused) ? 0 : 1));
}

void suite_ids(tutti *t, struct checks *c)
{
    struct worker workers[THREADS];

    checks_step(c, "each thread its own ids");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .t = t, .c = c, .index = i };
    }
    start_workers(workers, THREADS, register_and_use);
    join_workers(workers, THREADS);
    if (c->size > 1) {
        checks_step(c, "competing for one id");
        contests(t, c);
        checks_step(c, "while another thread joins");
        races_with_join(t, c);
    }
    checks_step(c, "before the last request was consumed");
    not_consumed(t, c);
    checks_step(c, "while another thread finalizes");
    for (int i = 0; i < 3; i++) {
        race_with_finalize(c);
    }
}
