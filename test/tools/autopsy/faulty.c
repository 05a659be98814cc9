/*
 * A trainer of which a rank does something wrong: faulty [FAULT [RANK [STEP [LAYER [COUNT]]]]], rank 1 in
 * the middle if it is not said, with so many elements in a layer. Without a fault of that name, and
 * where a rank is slow, or each at times, it trains for ever. A fault is told on stdout just
 * before, "fault PID TIME", and so is an error that ends a rank, "told PID TIME ERROR".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "misbehave.h"

enum {
    LAYERS = 4,
    SLOW_NS = 20000000
};

static const char *const names[LAYERS] = { "layer0", "layer1", "layer2", "layer3" };
static float *values[LAYERS];

/* Where and when; set once, before it trains. */
static struct {
    const char *what;
    int rank, step, layer, count;
} fault = { .what = "",
    .rank = 1,
    .step = 40, /* by then tensors have numbers */
    .layer = 1,
    .count = 64 };

static bool is(const char *what)
{
    return strcmp(fault.what, what) == 0;
}

/* For those who measure. */
static void tell(const char *what, const char *text)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)printf("%s %d %lld.%09ld %s\n", what, (int)getpid(), (long long)now.tv_sec,
            now.tv_nsec, text);
    (void)fflush(stdout);
}

static void rest(long ns)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --------------------------------------------------- what is sent is another bit */

static const float mark = 271828;
static bool flips; /* the next message that has the mark */

__attribute__((visibility("default"))) int MPI_Isend(const void *data, int count,
        MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    static unsigned char copy[1 << 16];
    unsigned char *found = NULL;

    if (flips && type == MPI_BYTE && (size_t)count <= sizeof copy) {
        memcpy(copy, data, (size_t)count);
        found = memmem(copy, (size_t)count, &mark, sizeof mark);
    }
    if (found == NULL) {
        return PMPI_Isend(data, count, type, to, tag, comm, request);
    }
    flips = false;
    found[1] ^= 0x10;
    return PMPI_Isend(copy, count, type, to, tag, comm, request);
}

/* ----------------------------------------------------------------- operations */

static void call_back(void *user, tutti_status status, const char *message)
{
    (void)status;
    (void)message;
    if (*(const int *)user == fault.rank) {
        lock_up();
    }
}

/* The engine of the rank calls it back, and goes no further. */
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

static tutti_status submit(
        tutti *t, int layer, int64_t step, bool is_wrong, tutti_request *request)
{
    const char *name = is_wrong && is("name") ? "leyer" : names[layer];
    const int64_t count = is_wrong && is("shape") ? fault.count / 2 : fault.count;
    const tutti_dtype dtype = is_wrong && is("dtype") ? TUTTI_INT32 : TUTTI_FLOAT32;
    const tutti_reduce_op op = is_wrong && is("op") ? TUTTI_MAX : TUTTI_SUM;
    tutti_options options;

    tutti_options_default(&options);
    options.step = is_wrong && is("step") ? step + 1 : step;
    options.prescale = is_wrong && is("scale") ? 2 : 1;
    values[layer][0] = 0;
    if (is_wrong && is("flipped")) {
        values[layer][0] = mark;
        flips = true;
    }
    return tutti_allreduce_async(
            t, name, values[layer], values[layer], count, dtype, op, &options, request);
}

/* Waits for one layer before the next: which comes first is up to the rank. */
static tutti_status train_in_turn(tutti *t, int64_t step, bool backwards)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < LAYERS && status == TUTTI_OK; i++) {
        tutti_request request;

        status = submit(t, backwards ? LAYERS - 1 - i : i, step, false, &request);
        if (status == TUTTI_OK) {
            status = tutti_wait(t, &request, TUTTI_FOREVER);
        }
    }
    return status;
}

/* What only this rank does, before it submits the layer. */
static tutti_status go_astray(tutti *t, int64_t step)
{
    tutti_request request;

    tell("fault", "");
    misbehave(fault.what);
    if (is("barrier")) {
        return tutti_barrier(t, "barrier", NULL);
    }
    if (is("abort")) {
        return tutti_abort(t, "checksum of shard 7 is wrong");
    }
    if (is("twice")) {
        return submit(t, fault.layer, step, false, &request);
    }
    return TUTTI_OK;
}

/* What all ranks do in that step, one of them in another way. */
static tutti_status step_of_all(tutti *t, bool is_wrong)
{
    static float value;
    tutti_status status = TUTTI_OK;
    int last;

    if (is("joined")) {
        status = tutti_join(t, NULL, &last);
    } else if (is("calls")) {
        status = ask_to_be_called(t);
        rest(SLOW_NS); /* so that it is called back before it submits more */
    } else if (is("root")) {
        if (is_wrong) {
            tell("fault", "");
        }
        status = tutti_broadcast(
                t, "start", &value, 1, TUTTI_FLOAT32, is_wrong ? 1 : 0, NULL);
    }
    return status;
}

static void be_slow(bool is_late)
{
    static unsigned seed;
    const int64_t until = now_ns() + SLOW_NS;

    if (is("uneven")) {
        seed = seed == 0 ? (unsigned)getpid() : seed;
        rest(rand_r(&seed) % SLOW_NS);
    } else if (is("slow") && is_late) {
        rest(SLOW_NS);
    } else if (is("busy") && is_late) {
        while (now_ns() < until) {
            /* computes longer than the others */
        }
    }
}

static tutti_status train(tutti *t, int64_t step)
{
    const bool is_rank = tutti_rank(t) == fault.rank;
    const bool is_wrong = is_rank && step == fault.step;
    /* With all layers of the next step, the library would find that a step differs. */
    const int layers =
            is_rank && step > fault.step && is("missing") ? fault.layer : LAYERS;
    tutti_request requests[LAYERS];
    tutti_status status = TUTTI_OK;
    size_t count = 0;

    if (is("order")) {
        if (is_wrong) {
            tell("fault", "");
        }
        return train_in_turn(t, step, is_wrong);
    }
    be_slow(is_rank && step >= fault.step);
    if (step == fault.step) {
        status = step_of_all(t, is_wrong);
    }
    for (int layer = 0; layer < layers && status == TUTTI_OK; layer++) {
        const bool is_here = is_wrong && layer == fault.layer;

        if (is_here) {
            status = go_astray(t, step);
        }
        if (status == TUTTI_OK && !(is_here && is("missing"))) {
            status = submit(t, layer, step, is_here, &requests[count]);
            count++;
        }
    }
    return status == TUTTI_OK ? tutti_wait_all(t, count, requests, TUTTI_FOREVER, NULL)
                              : status;
}

static int number(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

/* Before there is a context. */
static void begin(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    const bool is_rank = rank != NULL && number(rank) == fault.rank;

    if (is_rank && is("config")) {
        tell("fault", "");
        (void)setenv("TUTTI_CHUNK_BYTES", "65536", 1);
    } else if (is_rank && is("absent")) {
        tell("fault", "");
        exit(0);
    }
}

int main(int argc, char **argv)
{
    tutti_status status = TUTTI_OK;
    tutti *t;

    fault.what = argc > 1 ? argv[1] : "";
    fault.rank = argc > 2 ? number(argv[2]) : fault.rank;
    fault.step = argc > 3 ? number(argv[3]) : fault.step;
    fault.layer = argc > 4 ? number(argv[4]) : fault.layer;
    fault.count = argc > 5 ? number(argv[5]) : fault.count;
    for (int i = 0; i < LAYERS; i++) {
        values[i] = calloc((size_t)fault.count, sizeof *values[i]);
    }
    begin();
    if (tutti_init(&t, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    (void)printf("trains\n");
    (void)fflush(stdout);
    for (int64_t step = 0; status == TUTTI_OK; step++) {
        if (is("early") && tutti_rank(t) == fault.rank && step == fault.step) {
            tell("fault", "");
            return tutti_finalize(t) == TUTTI_OK ? 0 : 1;
        }
        status = train(t, step);
    }
    tell("told", tutti_last_error());
    (void)fprintf(stderr, "%s\n", tutti_last_error());
    return 3;
}
