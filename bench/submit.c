/*
 * bench-submit: what an operation costs where nothing has to be moved, by name and by id.
 *
 * One rank, alone, without MPI; 1 to 4 threads, each with tensors of its own, submit a
 * burst of operations and wait for all of them, again and again. A row has the processor
 * time of a submission as its thread sees it, and the time from the first submission to
 * the end of the wait, per operation of the process: engine and waiting included. Rounds by
 * name and by id alternate; medians of the rounds.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/tutti.h>

enum {
    THREADS_MAX = 4,
    BURST = 16, /* operations between two waits         */
    BURSTS = 2000, /* per round                            */
    ROUNDS = 9
};

/** What a way of submitting costs, in ns. */
struct cost {
    double submit; /* per submission                       */
    double total; /* per operation of all threads         */
};

/** A thread and what it measured. */
struct worker {
    tutti *t;
    pthread_barrier_t *start;
    const char (*names)[32]; /* [BURST]                              */
    const tutti_tensor *ids; /* [BURST], of the same names           */
    double submit_ns;
    bool by_id;
    bool failed;
    pthread_t thread;
};

/** All tensors of the rank. */
struct tensors {
    char names[THREADS_MAX][BURST][32];
    tutti_tensor ids[THREADS_MAX][BURST];
};

static double now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void submit_burst(struct worker *w, float *values, tutti_request *requests)
{
    for (int i = 0; i < BURST; i++) {
        const tutti_status status = w->by_id
                ? tutti_submit(w->t, w->ids[i], &values[i], &values[i], TUTTI_NO_STEP,
                          NULL, NULL, &requests[i])
                : tutti_allreduce_async(w->t, w->names[i], &values[i], &values[i], 1,
                          TUTTI_FLOAT32, TUTTI_SUM, NULL, &requests[i]);

        w->failed = w->failed || status != TUTTI_OK;
    }
}

static void *run_bursts(void *argument)
{
    struct worker *w = argument;
    float values[BURST] = { 0 };
    tutti_request requests[BURST] = { 0 };

    (void)pthread_barrier_wait(w->start);
    for (int b = 0; b < BURSTS; b++) {
        const double begin = now_ns();

        submit_burst(w, values, requests);
        w->submit_ns += now_ns() - begin;
        w->failed = tutti_wait_all(w->t, BURST, requests, TUTTI_FOREVER, NULL) !=
                        TUTTI_OK ||
                w->failed;
    }
    return NULL;
}

static bool measure(tutti *t, const struct tensors *tensors, int threads, bool by_id,
        struct cost *cost)
{
    struct worker workers[THREADS_MAX];
    pthread_barrier_t start;
    double began;
    bool failed = false;

    if (pthread_barrier_init(&start, NULL, (unsigned)threads + 1) != 0) {
        return false;
    }
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){ .t = t,
            .by_id = by_id,
            .start = &start,
            .names = tensors->names[i],
            .ids = tensors->ids[i] };
        if (pthread_create(&workers[i].thread, NULL, run_bursts, &workers[i]) != 0) {
            abort(); /* the others wait for it at the barrier */
        }
    }
    (void)pthread_barrier_wait(&start);
    began = now_ns();
    cost->submit = 0;
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        cost->submit += workers[i].submit_ns;
        failed = failed || workers[i].failed;
    }
    cost->total = (now_ns() - began) / (threads * BURSTS * BURST);
    cost->submit /= threads * BURSTS * BURST;
    (void)pthread_barrier_destroy(&start);
    return !failed;
}

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, compare_doubles);
    return values[ROUNDS / 2];
}

static bool print_row(tutti *t, const struct tensors *tensors, int threads)
{
    double submit[2][ROUNDS] = { { 0 } };
    double total[2][ROUNDS] = { { 0 } };
    struct cost cost = { 0 };
    bool ok = true;

    for (int round = 0; round < ROUNDS && ok; round++) {
        for (int i = 0; i < 2 && ok; i++) {
            const int by_id = (round + i) % 2;

            ok = measure(t, tensors, threads, by_id == 1, &cost);
            submit[by_id][round] = cost.submit;
            total[by_id][round] = cost.total;
        }
    }
    if (ok) {
        (void)printf("%9d %12.0f %12.0f %12.0f %12.0f\n", threads, median(submit[0]),
                median(submit[1]), median(total[0]), median(total[1]));
    }
    return ok;
}

static bool register_one(tutti *t, const char *name, tutti_tensor *id)
{
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = name,
        .collective = TUTTI_ALLREDUCE,
        .count = 1,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM };

    return tutti_tensor_register(t, &desc, id) == TUTTI_OK;
}

static bool register_all(tutti *t, struct tensors *tensors)
{
    bool ok = true;

    for (int i = 0; i < THREADS_MAX * BURST; i++) {
        char *name = tensors->names[i / BURST][i % BURST];

        (void)snprintf(name, sizeof tensors->names[0][0], "model.layer%d.weight%d",
                i / BURST, i % BURST);
        ok = ok && register_one(t, name, &tensors->ids[i / BURST][i % BURST]);
    }
    return ok;
}

int main(void)
{
    static struct tensors tensors;
    tutti *t = NULL;
    bool ok = tutti_init_local(1, &t, NULL) == TUTTI_OK;

    ok = ok && register_all(t, &tensors);
    (void)printf(
            "# ns per operation; bursts of %d, medians of %d rounds\n", BURST, ROUNDS);
    (void)printf("# %7s %12s %12s %12s %12s\n", "threads", "submit name", "submit id",
            "all, name", "all, id");
    for (int threads = 1; threads <= THREADS_MAX && ok; threads++) {
        ok = print_row(t, &tensors, threads);
    }
    ok = ok && tutti_finalize(t) == TUTTI_OK;
    if (!ok) {
        (void)fprintf(stderr, "bench-submit: %s\n", tutti_last_error());
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
