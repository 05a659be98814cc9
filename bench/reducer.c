/*
 * bench-reducer: what a step of a reducer takes beside tensors that are submitted by hand.
 *
 * The gradients of a network, all ready at once, last layer first; every side has a context
 * of its own, and gradients in memory of tutti_alloc(). The sides take turns; a row has
 * the median over the rounds, the slowest rank counting. Start it with tuttirun or mpirun.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/trainer.h>

#include "bench/core/summary.h"
#include "bench/core/workloads.h"

enum {
    WARMUP = 10, /* steps of each side, until they take equally long */
    STEPS = 3, /* of a side in a round                       */
    PASSES_MAX = 8
};

/** A way to take a step. */
struct kind {
    const char *name;
    bool by_hand; /* tensors registered and submitted without a reducer     */
    bool calls; /* the step ends with a callback                          */
    bool clips; /* takes the global norm                                  */
    int passes; /* backward passes of this rank, which add to the gradient */
    int shards; /* virtual shards; 0: none                                */
    int verifies; /* options.verify_results                                 */
};

struct side {
    struct kind kind;
    tutti *t;
    tutti_reducer *reducer;
    float **gradients; /* [count] */
    tutti_tensor *tensors; /* by hand */
    tutti_request *requests;
    int64_t step;
    atomic_size_t left;
    _Atomic int done;
    double *samples[2]; /* us: from the first pass, and from the last */
    size_t sampled;
};

static struct bench_workload network;
static float *one_pass; /* what a backward pass adds */

static double now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void check(tutti_status status)
{
    if (status != TUTTI_OK) {
        (void)fprintf(stderr, "bench-reducer: %s\n", tutti_last_error());
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the launcher ends the others */
        exit(EXIT_FAILURE);
    }
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size); /* also of nothing */

    if (memory == NULL) {
        (void)fprintf(stderr, "bench-reducer: no memory\n");
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the launcher ends the others */
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* --------------------------------------------------------------------- sides */

static void open_by_hand(struct side *side)
{
    void *memory;
    float *at;

    check(tutti_alloc(side->t, network.elements * sizeof *at, TUTTI_HOST, &memory));
    at = memory;
    side->tensors = allocate(network.count, sizeof *side->tensors);
    side->requests = allocate(network.count, sizeof *side->requests);
    for (size_t i = 0; i < network.count; i++) {
        const tutti_tensor_desc desc = { .size = sizeof desc,
            .name = network.tensors[i].name,
            .collective = TUTTI_ALLREDUCE,
            .count = (int64_t)network.tensors[i].count,
            .dtype = TUTTI_FLOAT32,
            .op = TUTTI_AVERAGE };

        check(tutti_tensor_register(side->t, &desc, &side->tensors[i]));
        side->gradients[i] = at;
        at += network.tensors[i].count;
    }
}

static void step_called_back(void *user, tutti_status status, const char *message)
{
    struct side *side = user;

    (void)message;
    check(status);
    atomic_store(&side->done, 1);
}

static void open_reducer(struct side *side)
{
    tutti_param *params = allocate(network.count, sizeof *params);
    tutti_reducer_options options;

    for (size_t i = 0; i < network.count; i++) {
        params[i] = (tutti_param){ .name = network.tensors[i].name,
            .count = (int64_t)network.tensors[i].count,
            .dtype = TUTTI_FLOAT32 };
    }
    tutti_reducer_options_default(&options);
    options.clip_norm = side->kind.clips ? 1e30 : 0;
    options.shards = side->kind.shards;
    options.verify_results = side->kind.verifies;
    options.accumulate = side->kind.shards > 0 ? 1 : side->kind.passes;
    check(tutti_reducer_create(
            side->t, params, network.count, &options, &side->reducer));
    if (side->kind.calls) {
        check(tutti_reducer_set_callback(side->reducer, step_called_back, side));
    }
    for (size_t i = 0; i < network.count; i++) {
        side->gradients[i] = tutti_reducer_gradient(side->reducer, i);
    }
    free(params);
}

static void side_open(struct side *side, struct kind kind, size_t rounds)
{
    *side = (struct side){ .kind = kind };
    check(tutti_init(&side->t, NULL));
    side->gradients = allocate(network.count, sizeof *side->gradients);
    side->samples[0] = allocate(rounds * STEPS, sizeof(double));
    side->samples[1] = allocate(rounds * STEPS, sizeof(double));
    if (kind.by_hand) {
        open_by_hand(side);
    } else {
        open_reducer(side);
    }
}

static void side_close(struct side *side)
{
    check(tutti_reducer_destroy(side->reducer));
    check(tutti_finalize(side->t));
    free(side->gradients);
    free(side->tensors);
    free(side->requests);
    free(side->samples[0]);
    free(side->samples[1]);
}

/* --------------------------------------------------------------------- steps */

static void tensor_called_back(void *user, tutti_status status, const char *message)
{
    struct side *side = user;

    (void)message;
    check(status);
    if (atomic_fetch_sub(&side->left, 1) == 1) {
        atomic_store(&side->done, 1);
    }
}

/* The cheapest backward pass there is: it adds to the gradient. */
static void add_pass(float *gradient, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        gradient[i] += one_pass[i];
    }
}

static void submit_by_hand(struct side *side, size_t i)
{
    const bool calls = side->kind.calls;

    check(tutti_submit(side->t, side->tensors[i], side->gradients[i],
            side->gradients[i], side->step, calls ? tensor_called_back : NULL, side,
            calls ? NULL : &side->requests[i]));
}

static void submit_pass(struct side *side)
{
    for (size_t i = network.count; i-- > 0;) {
        if (side->kind.passes > 1) {
            add_pass(side->gradients[i], network.tensors[i].count);
        }
        if (side->kind.by_hand) {
            submit_by_hand(side, i);
        } else {
            check(tutti_reducer_ready(side->reducer, i));
        }
    }
}

static void wait_step(struct side *side)
{
    if (side->kind.calls) {
        /* as a trainer that has nothing else to do: it lets the engine run */
        while (atomic_load(&side->done) == 0) {
            tutti_request none = TUTTI_REQUEST_NULL;

            check(tutti_test(side->t, &none));
        }
    } else if (side->kind.by_hand) {
        check(tutti_wait_all(
                side->t, network.count, side->requests, TUTTI_FOREVER, NULL));
    } else {
        check(tutti_reducer_wait(side->reducer, NULL));
    }
}

static void take_step(struct side *side, double *times)
{
    double begin;
    double last = 0;

    check(tutti_barrier(side->t, "begin", NULL));
    atomic_store(&side->done, 0);
    atomic_store(&side->left, network.count);
    begin = now_us();
    for (int pass = 0; pass < side->kind.passes; pass++) {
        last = now_us();
        submit_pass(side);
    }
    wait_step(side);
    side->step++;
    times[1] = now_us() - last;
    times[0] = times[1] + last - begin;
}

/* ---------------------------------------------------------------------- rows */

/* The slowest rank's times. */
static void take_turns(struct side *sides, size_t count, int rounds)
{
    double times[2];

    for (size_t s = 0; s < count; s++) {
        for (int i = 0; i < WARMUP; i++) {
            take_step(&sides[s], times);
        }
    }
    for (int turn = 0; turn < rounds * (int)count; turn++) {
        struct side *side = &sides[(size_t)turn % count];

        for (int i = 0; i < STEPS; i++) {
            take_step(side, times);
            check(tutti_allreduce(
                    side->t, "times", times, times, 2, TUTTI_FLOAT64, TUTTI_MAX, NULL));
            side->samples[0][side->sampled] = times[0];
            side->samples[1][side->sampled++] = times[1];
        }
    }
}

static void print_rows(struct side *sides, size_t count)
{
    double reference[2] = { 1, 1 };

    if (tutti_rank(sides[0].t) != 0) {
        return;
    }
    (void)printf("%s, %zu tensors, %.1f MB, %d ranks; median us, least us, ratio\n"
                 "%-28s %29s %29s\n",
            network.name, network.count, (double)network.elements * 4e-6,
            tutti_size(sides[0].t), "side", "whole step", "from the last pass");
    for (size_t s = 0; s < count; s++) {
        /* of the same passes and the same end */
        const bool refers = sides[s].kind.by_hand ||
                (sides[s].kind.passes > 1 && sides[s].kind.shards == 0);

        (void)printf("%-28s", sides[s].kind.name);
        for (int i = 0; i < 2; i++) {
            const struct bench_summary summary =
                    bench_summarise(sides[s].samples[i], sides[s].sampled);

            reference[i] = refers ? summary.median : reference[i];
            (void)printf(" %10.0f %10.0f %7.3f", summary.median, summary.min,
                    summary.median / reference[i]);
        }
        (void)printf("\n");
    }
}

/* Resident memory of this process, shared pages included, in MB. */
static double resident_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    char text[128] = "";
    char *at = text;
    double pages = 0;

    if (file != NULL && fgets(text, sizeof text, file) != NULL) {
        (void)strtol(text, &at, 10); /* the size of the address space comes first */
        pages = strtod(at, NULL);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return pages * (double)sysconf(_SC_PAGESIZE) * 1e-6;
}

/* What a reducer and its steps add to the memory of a rank. */
static void measure_memory(void)
{
    struct side side;
    const struct kind kind = { .name = "reducer, wait", .passes = 2 };
    const double before = resident_mb();
    double times[2];
    double grown;

    side_open(&side, kind, 1);
    for (int i = 0; i < WARMUP; i++) {
        take_step(&side, times);
    }
    grown = resident_mb() - before;
    (void)printf(
            "%s, %.1f MB of gradients, rank %d of %d: %.1f MB more resident after %d "
            "steps\n",
            network.name, (double)network.elements * 4e-6, tutti_rank(side.t),
            tutti_size(side.t), grown, WARMUP);
    side_close(&side);
}

/* Sides are compared with the last one by hand, or without shards, above them. */
static size_t choose_sides(const char *which, int ranks, struct kind *kinds)
{
    if (strcmp(which, "wait") == 0) {
        kinds[0] =
                (struct kind){ .name = "by hand, wait", .by_hand = true, .passes = 1 };
        kinds[1] = (struct kind){ .name = "reducer, wait", .passes = 1 };
        kinds[2] = (struct kind){ .name = "reducer, norm", .clips = true, .passes = 1 };
        kinds[3] = (struct kind){
            .name = "reducer, a shard per rank", .passes = 1, .shards = ranks
        };
        return 4;
    }
    if (strcmp(which, "callback") == 0) {
        kinds[0] = (struct kind){
            .name = "by hand, callbacks", .by_hand = true, .calls = true, .passes = 1
        };
        kinds[1] = (struct kind){
            .name = "reducer, callback", .calls = true, .passes = 1
        };
        return 2;
    }
    if (strcmp(which, "shards") == 0) {
        kinds[0] = (struct kind){ .name = "4 passes", .passes = 4 };
        kinds[1] = (struct kind){
            .name = "4 shards per rank", .passes = 4, .shards = 4 * ranks
        };
        kinds[2] = (struct kind){ .name = "3 passes", .passes = 3 };
        kinds[3] = (struct kind){
            .name = "3 shards per rank", .passes = 3, .shards = 3 * ranks
        };
        return 4;
    }
    if (strcmp(which, "verify") == 0) {
        kinds[0] =
                (struct kind){ .name = "by hand, wait", .by_hand = true, .passes = 1 };
        kinds[1] = (struct kind){ .name = "reducer, wait", .passes = 1 };
        kinds[2] = (struct kind){
            .name = "reducer, every step verified", .passes = 1, .verifies = 1
        };
        return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct kind kinds[4];
    struct side sides[4];
    const char *which = argc > 2 ? argv[2] : "wait";
    const int rounds = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 15;
    uint64_t largest = 0;
    tutti *job; /* stays, and MPI with it, until the sides are closed */
    size_t count;

    if (argc < 2 || rounds < 1 || !bench_workload_init(&network, argv[1]) ||
            (strcmp(which, "memory") != 0 && choose_sides(which, 1, kinds) == 0)) {
        (void)fprintf(stderr,
                "usage: bench-reducer resnet50|bert-base|gpt2 "
                "[wait|callback|shards|verify|memory] "
                "[rounds]\n");
        return 2;
    }
    for (size_t i = 0; i < network.count; i++) {
        largest =
                network.tensors[i].count > largest ? network.tensors[i].count : largest;
    }
    one_pass = allocate(largest, sizeof *one_pass);
    check(tutti_init(&job, NULL));
    if (strcmp(which, "memory") == 0) {
        measure_memory();
    }
    count = choose_sides(which, tutti_size(job), kinds);
    for (size_t s = 0; s < count; s++) {
        side_open(&sides[s], kinds[s], (size_t)rounds);
    }
    if (count > 0) {
        take_turns(sides, count, rounds);
        print_rows(sides, count);
    }
    for (size_t s = 0; s < count; s++) {
        side_close(&sides[s]);
    }
    check(tutti_finalize(job));
    bench_workload_fini(&network);
    free(one_pass);
    return EXIT_SUCCESS;
}
