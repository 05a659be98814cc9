/*
 * bench-optimizer: what a step of AdamW takes, separate from the reduction, fused with it, and sharded.
 *
 * The gradients of a network are all ready at once, last layer first. Every side has a context
 * of its own, with values and gradients in memory of tutti_alloc(). The sides take
 * turns; a row has the median over the rounds, the slowest rank counting.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/trainer.h>

#include "bench/core/summary.h"
#include "bench/core/workloads.h"

enum {
    WARMUP = 6, /* steps of each side, until they take equally long */
    STEPS = 2, /* of a side in a round */
    SIDES = 3
};

/** A way to take a step. */
struct side {
    const char *name;
    bool separate; /* reduces, waits, then updates in a loop over each parameter */
    bool sharded;
    tutti *t;
    float *values, *gradients; /* of all parameters, side by side */
    float *moments[2]; /* separate: the same */
    tutti_reducer *reducer;
    tutti_optimizer *optimizer;
    int64_t state_bytes;
    int64_t step;
    double *samples; /* us */
    size_t sampled;
};

static struct bench_workload network;

static double now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void check(tutti_status status)
{
    if (status != TUTTI_OK) {
        (void)fprintf(stderr, "bench-optimizer: %s\n", tutti_last_error());
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the launcher ends the others */
        exit(EXIT_FAILURE);
    }
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        (void)fprintf(stderr, "bench-optimizer: no memory\n");
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the launcher ends the others */
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* --------------------------------------------------------------------- sides */

static float *allocate_all(const struct side *side, float scale)
{
    void *memory;
    float *elements;

    check(tutti_alloc(
            side->t, network.elements * sizeof *elements, TUTTI_HOST, &memory));
    elements = memory;
    for (uint64_t i = 0; i < network.elements; i++) {
        elements[i] = scale * (float)(i % 61 + 1);
    }
    return elements;
}

static void side_open(struct side *side, size_t samples)
{
    tutti_param *params = allocate(network.count, sizeof *params);
    tutti_optimizer_options options;
    uint64_t at = 0;

    check(tutti_init(&side->t, NULL));
    side->samples = allocate(samples, sizeof *side->samples);
    side->values = allocate_all(side, 1e-2F);
    side->gradients = allocate_all(side, 1e-4F);
    for (size_t i = 0; i < network.count; i++) {
        params[i] = (tutti_param){ .name = network.tensors[i].name,
            .value = side->values + at,
            .gradient = side->gradients + at,
            .count = (int64_t)network.tensors[i].count,
            .dtype = TUTTI_FLOAT32 };
        at += network.tensors[i].count;
    }
    check(tutti_reducer_create(side->t, params, network.count, NULL, &side->reducer));
    if (side->separate) {
        side->moments[0] = allocate(network.elements, sizeof(float));
        side->moments[1] = allocate(network.elements, sizeof(float));
        side->state_bytes = (int64_t)(network.elements * 2 * sizeof(float));
    } else {
        tutti_optimizer_options_default(&options);
        options.weight_decay = 0.1;
        options.sharded = side->sharded;
        check(tutti_optimizer_create(side->reducer, &options, &side->optimizer));
        tutti_optimizer_memory(side->optimizer, &side->state_bytes, NULL);
    }
    free(params);
}

static void side_close(struct side *side)
{
    check(tutti_optimizer_destroy(side->optimizer));
    check(tutti_reducer_destroy(side->reducer));
    check(tutti_finalize(side->t));
    free(side->moments[0]);
    free(side->moments[1]);
    free(side->samples);
}

/* --------------------------------------------------------------------- steps */

/* AdamW as a trainer would write it. */
static void update_separately(const struct side *side)
{
    const float rate = 1e-3F;
    const float step_size = rate / (1 - powf(0.9F, (float)(side->step + 1)));
    const float root = 1 / sqrtf(1 - powf(0.999F, (float)(side->step + 1)));
    float *restrict values = side->values;
    float *restrict moments1 = side->moments[0];
    float *restrict moments2 = side->moments[1];
    const float *restrict gradients = side->gradients;

    for (uint64_t i = 0; i < network.elements; i++) {
        const float g = gradients[i];
        const float m = 0.9F * moments1[i] + 0.1F * g;
        const float v = 0.999F * moments2[i] + 0.001F * g * g;

        moments1[i] = m;
        moments2[i] = v;
        values[i] = values[i] * (1 - rate * 0.1F) -
                step_size * m / (sqrtf(v) * root + 1e-8F);
    }
}

static double take_step(struct side *side)
{
    double begin;

    check(tutti_barrier(side->t, "begin", NULL));
    begin = now_us();
    for (size_t i = network.count; i-- > 0;) {
        check(tutti_reducer_ready(side->reducer, i));
    }
    if (side->separate) {
        check(tutti_reducer_wait(side->reducer, NULL));
        update_separately(side);
    } else {
        check(tutti_optimizer_step(side->optimizer, NULL));
    }
    side->step++;
    return now_us() - begin;
}

static void take_turns(struct side *sides, int rounds)
{
    for (size_t s = 0; s < SIDES; s++) {
        for (int i = 0; i < WARMUP; i++) {
            (void)take_step(&sides[s]);
        }
    }
    for (int n = 0; n < rounds * SIDES; n++) {
        struct side *side = &sides[n % SIDES];

        for (int i = 0; i < STEPS; i++) {
            double time = take_step(side);

            check(tutti_allreduce(
                    side->t, "time", &time, &time, 1, TUTTI_FLOAT64, TUTTI_MAX, NULL));
            side->samples[side->sampled++] = time;
        }
    }
}

static void print_rows(struct side *sides)
{
    double reference = 0;

    if (tutti_rank(sides[0].t) != 0) {
        return;
    }
    (void)printf("%s, %zu tensors, %.1f MB, %d ranks, AdamW\n"
                 "%-24s %10s %10s %8s %16s\n",
            network.name, network.count, (double)network.elements * 4e-6,
            tutti_size(sides[0].t), "side", "median ms", "least ms", "ratio",
            "state MB, rank 0");
    for (size_t s = 0; s < SIDES; s++) {
        const struct bench_summary summary =
                bench_summarise(sides[s].samples, sides[s].sampled);

        reference = s == 0 ? summary.median : reference;
        (void)printf("%-24s %10.1f %10.1f %8.3f %16.1f\n", sides[s].name,
                summary.median / 1e3, summary.min / 1e3, summary.median / reference,
                (double)sides[s].state_bytes * 1e-6);
    }
}

int main(int argc, char **argv)
{
    struct side sides[SIDES] = {
        { .name = "reduction, then update", .separate = true },
        { .name = "fused" },
        { .name = "fused, sharded", .sharded = true },
    };
    const int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 9;
    tutti *job; /* stays, and MPI with it, until the sides are closed */

    if (argc < 2 || rounds < 1 || !bench_workload_init(&network, argv[1])) {
        (void)fprintf(
                stderr, "usage: bench-optimizer resnet50|bert-base|gpt2 [rounds]\n");
        return 2;
    }
    check(tutti_init(&job, NULL));
    for (size_t s = 0; s < SIDES; s++) {
        side_open(&sides[s], (size_t)rounds * STEPS);
    }
    take_turns(sides, rounds);
    print_rows(sides);
    for (size_t s = 0; s < SIDES; s++) {
        side_close(&sides[s]);
    }
    check(tutti_finalize(job));
    bench_workload_fini(&network);
    return EXIT_SUCCESS;
}
