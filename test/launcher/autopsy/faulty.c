/*
 * A trainer of which rank 1 does something wrong in the middle: faulty FAULT. Without a fault
 * of that name, and where a rank is slow, or each at times, it trains for ever.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum {
    LAYERS = 4,
    COUNT = 64,
    FAULTY_STEP = 40, /* by then there is a plan */
    SLOW_NS = 20000000
};

static const char *const names[LAYERS] = { "layer0", "layer1", "layer2", "layer3" };
static float values[LAYERS][COUNT];

static void lock_up(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    (void)pthread_mutex_lock(&mutex);
    (void)pthread_mutex_lock(&mutex);
}

static void read_nothing(void)
{
    int ends[2];
    char byte;

    if (pipe(ends) == 0) {
        (void)!read(ends[0], &byte, 1);
    }
}

static void compute(void)
{
    for (volatile unsigned long i = 0;; i++) {
        /* for ever */
    }
}

static void rest(long ns)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/* What rank 1 does instead of going on. */
static void misbehave(const char *fault)
{
    if (strcmp(fault, "stopped") == 0) {
        (void)raise(SIGSTOP);
    } else if (strcmp(fault, "killed") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(fault, "locked") == 0 || strcmp(fault, "joined") == 0) {
        lock_up();
    } else if (strcmp(fault, "reads") == 0) {
        read_nothing();
    } else if (strcmp(fault, "computes") == 0) {
        compute();
    }
}

static tutti_status submit(
        tutti *t, int layer, int64_t step, int64_t count, tutti_request *request)
{
    tutti_options options;

    tutti_options_default(&options);
    options.step = step;
    return tutti_allreduce_async(t, names[layer], values[layer], values[layer], count,
            TUTTI_FLOAT32, TUTTI_SUM, &options, request);
}

static void call_back(void *user, tutti_status status, const char *message)
{
    (void)status;
    (void)message;
    if (*(const int *)user == 1) {
        lock_up();
    }
}

/* The engine of rank 1 calls it back, and goes no further. */
static tutti_status ask_to_be_called(tutti *t)
{
    static float value;
    static int rank;
    tutti_options options;

    rank = tutti_rank(t);
    tutti_options_default(&options);
    options.callback = call_back;
    options.user = &rank;
    return tutti_allreduce_async(
            t, "called", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, &options, NULL);
}

/* Waits for one layer before the next: which comes first is up to the rank. */
static tutti_status train_in_turn(tutti *t, int64_t step, bool backwards)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < LAYERS && status == TUTTI_OK; i++) {
        tutti_request request;

        status = submit(t, backwards ? LAYERS - 1 - i : i, step, COUNT, &request);
        if (status == TUTTI_OK) {
            status = tutti_wait(t, &request, TUTTI_FOREVER);
        }
    }
    return status;
}

static tutti_status train(tutti *t, int64_t step, const char *fault)
{
    const bool is_wrong = tutti_rank(t) == 1 && step == FAULTY_STEP;
    /* With all layers of the next step, the library would find that a step differs. */
    const bool stays = tutti_rank(t) == 1 && step > FAULTY_STEP;
    const int layers = stays && strcmp(fault, "missing") == 0 ? 1 : LAYERS;
    tutti_request requests[LAYERS];
    tutti_status status = TUTTI_OK;
    size_t count = 0;

    if (strcmp(fault, "order") == 0) {
        return train_in_turn(t, step, is_wrong);
    }
    if (strcmp(fault, "uneven") == 0) {
        static unsigned seed;

        seed = seed == 0 ? (unsigned)tutti_rank(t) + 1 : seed;
        rest(rand_r(&seed) % SLOW_NS);
    } else if (strcmp(fault, "slow") == 0 && tutti_rank(t) == 1) {
        rest(SLOW_NS);
    }
    if (strcmp(fault, "joined") == 0 && step == FAULTY_STEP) {
        int last;

        status = tutti_join(t, NULL, &last);
    }
    if (strcmp(fault, "calls") == 0 && step == FAULTY_STEP) {
        status = ask_to_be_called(t);
        rest(SLOW_NS); /* so that it is called back before it submits more */
    }
    for (int layer = 0; layer < layers && status == TUTTI_OK; layer++) {
        const bool leaves_out = is_wrong && strcmp(fault, "missing") == 0 && layer == 2;
        const bool differs = is_wrong && strcmp(fault, "shape") == 0 && layer == 2;

        if (is_wrong && layer == 1) {
            misbehave(fault);
        }
        if (!leaves_out) {
            status = submit(
                    t, layer, step, differs ? COUNT / 2 : COUNT, &requests[count]);
            count++;
        }
    }
    return status == TUTTI_OK ? tutti_wait_all(t, count, requests, TUTTI_FOREVER, NULL)
                              : status;
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    tutti_status status;
    tutti *t;

    if (tutti_init(&t, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    (void)printf("trains\n");
    (void)fflush(stdout);
    status = TUTTI_OK;
    for (int64_t step = 0; status == TUTTI_OK; step++) {
        status = train(t, step, fault);
    }
    return 3;
}
