/*
 * The batches of a plan: as few as can be when all is submitted at once, several when the
 * program computes in between; and priorities, which change no bit.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "test/batch/pattern.h"
#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    LAYERS = 4,
    COUNT = 50,
    LEARNING = 3, /* steps until the plan is on for sure                          */
    STEPS = LEARNING + 2,
    ATTEMPTS = 5,
    /* Far longer than a busy machine keeps a thread waiting between two calls. */
    GAP_NS = 25000000
};

static const struct pattern kind = { TUTTI_FLOAT32, TUTTI_SUM, 0 };

static void compute(long ns)
{
    const struct timespec time = { .tv_nsec = ns };

    (void)nanosleep(&time, NULL);
}

/* A backward pass, the last layer first, and the wait for all of it. */
static void run_step(tutti *t, struct checks *c, long gap_ns)
{
    struct buffer data[LAYERS];
    struct buffer expected;
    tutti_request requests[LAYERS];
    tutti_options options;
    char name[32];

    tutti_options_default(&options);
    buffer_init(&expected, COUNT * sizeof(float));
    pattern_expect(&kind, c->size, (struct scales){ 1, 1 }, expected.data, COUNT);
    for (int i = 0; i < LAYERS; i++) {
        if (gap_ns > 0) {
            compute(gap_ns);
        }
        (void)snprintf(name, sizeof name, "layer %d", LAYERS - 1 - i);
        buffer_init(&data[i], COUNT * sizeof(float));
        pattern_fill(&kind, c->rank, data[i].data, COUNT);
        options.priority = i;
        EXPECT_OK(c,
                tutti_allreduce_async(t, name, data[i].data, data[i].data, COUNT,
                        TUTTI_FLOAT32, TUTTI_SUM, &options, &requests[i]));
    }
    EXPECT_OK(c, tutti_wait_all(t, LAYERS, requests, TUTTI_FOREVER, NULL));
    for (int i = 0; i < LAYERS; i++) {
        EXPECT(c, memcmp(data[i].data, expected.data, expected.bytes) == 0);
        EXPECT(c, buffer_is_intact(&data[i]));
        buffer_fini(&data[i]);
    }
    buffer_fini(&expected);
}

/* Batches of the steps after those in which the plan was learnt. */
static uint64_t planned_batches(
        struct checks *c, const struct setting *settings, long gap_ns)
{
    tutti *t = job_open(c, settings);
    tutti_stats before = { .size = sizeof before };
    tutti_stats after = { .size = sizeof after };

    for (int i = 0; i < STEPS; i++) {
        if (i == LEARNING) {
            EXPECT_OK(c, tutti_stats_get(t, &before));
        }
        run_step(t, c, gap_ns);
    }
    EXPECT_OK(c, tutti_stats_get(t, &after));
    EXPECT_OK(c, tutti_finalize(t));
    return after.batches - before.batches;
}

/*
 * The layout follows from when tensors become ready, so a machine that is busy with other
 * things may see another one. Then it is tried again, and in the end only said: values are
 * compared in any case, and test_layout and test_plan_layout know every batch.
 */
static void expect_batches(tutti *t, struct checks *c, const struct setting *settings,
        long gap_ns, uint64_t least, uint64_t most)
{
    uint64_t batches = 0;

    for (int i = 0; i < ATTEMPTS; i++) {
        int32_t fits;

        batches = planned_batches(c, settings, gap_ns);
        fits = batches >= least && batches <= most;
        EXPECT_OK(c,
                tutti_allreduce(
                        t, "fits", &fits, &fits, 1, TUTTI_INT32, TUTTI_MIN, NULL));
        if (fits != 0) {
            return;
        }
    }
    if (c->rank == 0) {
        printf("    a busy machine: %d batches instead of %d to %d\n", (int)batches,
                (int)least, (int)most);
    }
}

void suite_layout(tutti *t, struct checks *c)
{
    static const struct setting patient[] = { { "plan_alpha_us", "10000" }, { 0 } };
    static const struct setting urgent[] = { { "plan_alpha_us", "10000" },
        { "priority", "true" }, { "fusion_bytes", "1" }, { 0 } };
    const uint64_t steps = STEPS - LEARNING;

    checks_step(c, "at once");
    expect_batches(t, c, patient, 0, steps, steps);
    checks_step(c, "with computation in between");
    expect_batches(t, c, patient, GAP_NS, 2 * steps, LAYERS * steps);
    checks_step(c, "priorities");
    expect_batches(t, c, urgent, 0, LAYERS * steps, LAYERS * steps);
}
