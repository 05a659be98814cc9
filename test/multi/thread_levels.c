/*
 * MPI initialised by the application below MPI_THREAD_MULTIPLE: no background thread,
 * other threads submit but do not wait, and all of it still works.
 *
 *   thread_levels single|funneled|serialized
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "process_job.h"

/** A thread that did not initialise MPI. */
struct other {
    tutti *t;
    struct checks *c;
    int64_t value;
    tutti_request request;
};

static void *submit_elsewhere(void *argument)
{
    struct other *other = argument;
    struct checks *c = other->c;
    int64_t value = 1;

    EXPECT_OK(c,
            tutti_allreduce_async(other->t, "elsewhere", &other->value, &other->value,
                    1, TUTTI_INT64, TUTTI_SUM, NULL, &other->request));
    EXPECT_STATUS(c, TUTTI_ERR_THREAD, tutti_wait(other->t, &other->request, 0));
    EXPECT(c, other->request != TUTTI_REQUEST_NULL);
    EXPECT_STATUS(c, TUTTI_ERR_THREAD,
            tutti_allreduce(other->t, "blocking", &value, &value, 1, TUTTI_INT64,
                    TUTTI_SUM, NULL));
    return NULL;
}

static void from_another_thread(tutti *t, struct checks *c)
{
    struct other other = { .t = t, .c = c, .value = c->rank + 1 };
    pthread_t thread;

    checks_step(c, "submitting from another thread");
    EXPECT(c, pthread_create(&thread, NULL, submit_elsewhere, &other) == 0);
    (void)pthread_join(thread, NULL);
    EXPECT_OK(c, tutti_wait(t, &other.request, TUTTI_FOREVER));
    EXPECT(c, other.value == c->size * (c->size + 1) / 2);
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
