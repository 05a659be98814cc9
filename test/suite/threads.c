/*
 * Several application threads per rank: they submit and wait at the same time, poll, and
 * follow up from callbacks.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    THREADS = 4,
    ROUNDS = 25,
    CHAIN = 10
};

/** An application thread of a rank. */
struct worker {
    tutti *t;
    struct checks *c;
    int index;
    int64_t *value; /* buffer of its operations; borrowed */
    tutti_request request;
    pthread_t thread;
};

static void run_workers(struct worker *workers, void *(*work)(void *))
{
    for (int i = 0; i < THREADS; i++) {
        EXPECT(workers[i].c,
                pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
}

static int64_t sum_over_ranks(int size, int64_t factor)
{
    return factor * size * (size + 1) / 2;
}

/* Blocking calls of all threads at once, and the threads of each rank in any order. */
static void *call_and_wait(void *argument)
{
    struct worker *w = argument;
    char name[32];

    (void)snprintf(name, sizeof name, "thread %d", w->index);
    for (int64_t i = 0; i < ROUNDS; i++) {
        *w->value = (w->index + 1 + i) * (w->c->rank + 1);
        EXPECT_OK(w->c,
                tutti_allreduce(w->t, name, w->value, w->value, 1, TUTTI_INT64,
                        TUTTI_SUM, NULL));
        EXPECT(w->c, *w->value == sum_over_ranks(w->c->size, w->index + 1 + i));
    }
    return NULL;
}

/* All threads poll, and nobody waits. */
static void *submit_and_poll(void *argument)
{
    struct worker *w = argument;
    tutti_status status = TUTTI_AGAIN;
    char name[32];

    (void)snprintf(name, sizeof name, "polled %d", w->index);
    *w->value = 10 * (w->index + 1) * (w->c->rank + 1);
    EXPECT_OK(w->c,
            tutti_allreduce_async(w->t, name, w->value, w->value, 1, TUTTI_INT64,
                    TUTTI_SUM, NULL, &w->request));
    while (status == TUTTI_AGAIN) {
        status = tutti_test(w->t, &w->request);
        (void)sched_yield();
    }
    EXPECT_OK(w->c, status);
    EXPECT(w->c, w->request == TUTTI_REQUEST_NULL);
    EXPECT(w->c, *w->value == sum_over_ranks(w->c->size, 10 * (w->index + 1)));
    return NULL;
}

/** A chain of operations, each begun by the callback of the one before. */
struct chain {
    tutti *t;
    struct checks *c;
    int64_t *value; /* its buffer; borrowed */
    _Atomic int links; /* finished */
};

static void follow_up(void *user, tutti_status status, const char *message);

static void submit_link(struct chain *chain)
{
    tutti_options options;

    tutti_options_default(&options);
    options.callback = follow_up;
    options.user = chain;
    *chain->value = chain->c->rank + 1;
    EXPECT_OK(chain->c,
            tutti_allreduce_async(chain->t, "chain", chain->value, chain->value, 1,
                    TUTTI_INT64, TUTTI_SUM, &options, NULL));
}

/* Everything that waits is refused; submitting is not, even under the same name. */
static void follow_up(void *user, tutti_status status, const char *message)
{
    struct chain *chain = user;
    struct checks *c = chain->c;
    tutti_request request = TUTTI_REQUEST_NULL;
    int64_t value = 1;
    tutti_process_set set;
    const int first = 0;

    EXPECT_OK(c, status);
    EXPECT(c, message != NULL && message[0] == '\0');
    EXPECT(c, *chain->value == sum_over_ranks(c->size, 1));
    EXPECT_STATUS(c, TUTTI_ERR_THREAD, tutti_wait(chain->t, &request, 0));
    EXPECT_STATUS(c, TUTTI_ERR_THREAD, tutti_test(chain->t, &request));
    EXPECT_STATUS(c, TUTTI_ERR_THREAD, tutti_wait_all(chain->t, 1, &request, 0, NULL));
    EXPECT_STATUS(c, TUTTI_ERR_THREAD, tutti_barrier(chain->t, "no", NULL));
    EXPECT_STATUS(c, TUTTI_ERR_THREAD,
            tutti_allreduce(
                    chain->t, "no", &value, &value, 1, TUTTI_INT64, TUTTI_SUM, NULL));
    EXPECT_STATUS(
            c, TUTTI_ERR_THREAD, tutti_process_set_create(chain->t, &first, 1, &set));
    EXPECT_STATUS(c, TUTTI_ERR_THREAD, tutti_finalize(chain->t));
    if (atomic_load(&chain->links) + 1 < CHAIN) {
        submit_link(chain);
    }
    (void)atomic_fetch_add(&chain->links, 1);
}

static void callbacks_follow_up(tutti *t, struct checks *c)
{
    BUFFER_ARRAY(int64_t, value, 1);
    struct chain chain = { .t = t, .c = c, .value = value };

    submit_link(&chain);
    /* Nobody waits here: the background thread carries it all. */
    EXPECT(c, tutti_has_background(t));
    while (atomic_load(&chain.links) < CHAIN) {
        (void)sched_yield();
    }
}

void suite_threads(tutti *t, struct checks *c)
{
    BUFFER_ARRAY(int64_t, values, THREADS);
    struct worker workers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .t = t, .c = c, .index = i, .value = &values[i] };
    }
    checks_step(c, "blocking calls");
    run_workers(workers, call_and_wait);
    checks_step(c, "polling");
    run_workers(workers, submit_and_poll);
    checks_step(c, "callbacks");
    callbacks_follow_up(t, c);
}
