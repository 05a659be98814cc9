/*
 * MPI initialised by the application below MPI_THREAD_MULTIPLE: no background thread,
 * other threads submit and wait, and what they submit moves while the main thread is inside
 * tutti.
 *
 *   thread_levels single|funneled|serialized
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "process_job.h"

/** A thread that did not initialise MPI. */
struct other {
    tutti *t;
    struct checks *c;
    int64_t values[2];
    atomic_bool is_late; /* its wait has run into the deadline */
    atomic_bool ended;
};

static void *submit_elsewhere(void *argument)
{
    struct other *other = argument;
    struct checks *c = other->c;
    tutti_request request = TUTTI_REQUEST_NULL;

    EXPECT_OK(c,
            tutti_allreduce_async(other->t, "elsewhere", &other->values[0],
                    &other->values[0], 1, TUTTI_INT64, TUTTI_SUM, NULL, &request));
    EXPECT_OK(c, tutti_wait(other->t, &request, TUTTI_FOREVER));
    EXPECT_OK(c,
            tutti_allreduce(other->t, "blocking", &other->values[1], &other->values[1],
                    1, TUTTI_INT64, TUTTI_SUM, NULL));
    if (c->rank == 0) {
        /* The others submit it when this rank has told them of its deadline. */
        EXPECT_OK(c, tutti_barrier_async(other->t, "late", NULL, &request));
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(other->t, &request, 1000000));
        atomic_store(&other->is_late, true);
        EXPECT_OK(c, tutti_wait(other->t, &request, TUTTI_FOREVER));
    }
    /* It would have to call MPI; the context lives on. */
    EXPECT_STATUS(c, TUTTI_ERR_THREAD, tutti_finalize(other->t));
    EXPECT(c, strstr(tutti_last_error(), "MPI_THREAD_MULTIPLE") != NULL);
    atomic_store(&other->ended, true);
    return NULL;
}

/* The main thread of a program that has nothing to wait for itself. */
static void serve(tutti *t, struct checks *c, const atomic_bool *until)
{
    tutti_request none = TUTTI_REQUEST_NULL;

    while (!atomic_load(until)) {
        EXPECT_OK(c, tutti_test(t, &none));
        (void)sched_yield();
    }
}

static void from_another_thread(tutti *t, struct checks *c)
{
    struct other other = { .t = t, .c = c, .values = { c->rank + 1, c->rank + 2 } };
    const int64_t sum = (int64_t)c->size * (c->size + 1) / 2;
    pthread_t thread;

    checks_step(c, "from another thread");
    EXPECT(c, pthread_create(&thread, NULL, submit_elsewhere, &other) == 0);
    serve(t, c, c->rank == 0 ? &other.is_late : &other.ended);
    EXPECT_OK(c, tutti_barrier(t, "on time", NULL));
    if (c->rank != 0) {
        EXPECT_OK(c, tutti_barrier(t, "late", NULL));
    }
    serve(t, c, &other.ended);
    (void)pthread_join(thread, NULL);
    EXPECT(c, other.values[0] == sum && other.values[1] == sum + c->size);
}

static void from_the_main_thread(tutti *t, struct checks *c)
{
    enum {
        TENSORS = 30
    };
    tutti_request requests[TENSORS];
    int64_t values[TENSORS];
    char name[32];

    checks_step(c, "from the main thread");
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < TENSORS; i++) {
            const int k = (i + 7 * c->rank) % TENSORS;

            values[k] = k + c->rank;
            (void)snprintf(name, sizeof name, "tensor %d", k);
            EXPECT_OK(c,
                    tutti_allreduce_async(t, name, &values[k], &values[k], 1,
                            TUTTI_INT64, TUTTI_SUM, NULL, &requests[k]));
        }
        EXPECT_OK(c, tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL));
        for (int i = 0; i < TENSORS; i++) {
            EXPECT(c, values[i] == (int64_t)i * c->size + c->size * (c->size - 1) / 2);
        }
    }
}

static int level_of(const char *name)
{
    static const char *const names[] = { "single", "funneled", "serialized" };
    static const int levels[] = { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED,
        MPI_THREAD_SERIALIZED };

    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            return levels[i];
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    const int wanted = argc == 2 ? level_of(argv[1]) : -1;
    MPI_Comm world = MPI_COMM_WORLD;
    struct checks checks;
    struct job job;
    char line[LOG_TEXT_MAX];
    tutti *t;
    int level = 0;
    int status;

    if (wanted < 0 || MPI_Init_thread(&argc, &argv, wanted, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, &checks, &world);
    atomic_store(&checks.topic, argv[1]);
    t = job_open(&checks, NULL);
    if (t != NULL && EXPECT(&checks, level < MPI_THREAD_MULTIPLE)) {
        EXPECT(&checks, !tutti_has_background(t));
        /* Said once in the job. */
        EXPECT(&checks,
                job_find_line(&checks, checks.rank, "MPI_THREAD_MULTIPLE", line) ==
                        (checks.rank == 0));
        from_the_main_thread(t, &checks);
        from_another_thread(t, &checks);
    }
    checks_step(&checks, "finalize");
    EXPECT_OK(&checks, tutti_finalize(t));
    status = process_job_end(&job, &checks);
    (void)MPI_Finalize();
    return status;
}
