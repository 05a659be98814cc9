/*
 * Fusion: many small tensors of different kinds, submitted in a different order on each
 * rank, again and again; fused or not, every bit as the definition says.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/batch/reference.h"
#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    TENSORS = 300,
    GROUPED = 24,
    WAVES = 4
};

/* Gradient i of the model. */
static struct operation choose(int i, int wave)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_FLOAT16, TUTTI_BFLOAT16,
        TUTTI_FLOAT64, TUTTI_INT32, TUTTI_INT8, TUTTI_UINT16, TUTTI_FLOAT32 };
    static const tutti_reduce_op ops[] = { TUTTI_SUM, TUTTI_AVERAGE, TUTTI_SUM,
        TUTTI_MAX, TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MIN, TUTTI_AVERAGE };
    const uint64_t random = pattern_mix(7, (uint64_t)i);
    struct operation o = { .collective = TUTTI_ALLREDUCE,
        .pattern = { .dtype = dtypes[i % 8], .op = ops[i % 8] },
        .scales = { 1, 1 },
        .count = (int64_t)(1 + random % (i % 30 == 0 ? 5000 : 60)),
        .row_count = 1,
        .in_place = true };

    o.pattern.salt = (uint32_t)(1000 * wave + i);
    if (i % 8 < 3 && i % 5 < 2) {
        o.scales = i % 5 == 0 ? (struct scales){ 0.25, 1 } : (struct scales){ 1, 1.5 };
    }
    return o;
}

/*
 * Submits the tensors in an order of this rank. The first `grouped` are a group on every rank:
 * they are ready together, so some fuse even if each tensor is reduced as soon as submitted.
 */
static void run_wave(tutti *t, struct checks *c, int wave, int grouped)
{
    struct operation *operations = must_alloc(TENSORS, sizeof *operations);
    struct flight *flights = must_alloc(TENSORS, sizeof *flights);
    int *ranks = must_alloc((size_t)c->size, sizeof *ranks);
    const struct crew world = crew_of_world(c, ranks);
    tutti_request requests[TENSORS];
    int order[TENSORS];
    char name[32];

    pattern_shuffle(order, TENSORS - grouped, (uint64_t)(100 * c->rank + wave));
    if (grouped > 0) {
        EXPECT_OK(c, tutti_group_begin(t));
    }
    for (int i = 0; i < TENSORS; i++) {
        const int k = i < grouped ? i : grouped + order[i - grouped];

        operations[k] = choose(k, wave);
        (void)snprintf(name, sizeof name, "layer %d", k);
        flight_begin(t, c, &flights[k], &operations[k], &world, name);
        requests[i] = flights[k].request;
        flights[k].request = TUTTI_REQUEST_NULL;
        if (i + 1 == grouped) {
            EXPECT_OK(c, tutti_group_end(t));
        }
    }
    EXPECT_OK(c, tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL));
    for (int i = 0; i < TENSORS; i++) {
        EXPECT(c, requests[i] == TUTTI_REQUEST_NULL);
        flight_end(t, c, &flights[i]);
    }
    free(ranks);
    free(flights);
    free(operations);
}

static void run_waves(tutti *t, struct checks *c, int grouped, tutti_stats *stats)
{
    for (int wave = 0; wave < WAVES; wave++) {
        run_wave(t, c, wave, grouped);
    }
    *stats = (tutti_stats){ .size = sizeof *stats };
    EXPECT_OK(c, tutti_stats_get(t, stats));
    EXPECT(c, stats->submitted == TENSORS * WAVES);
    EXPECT(c, stats->completed == TENSORS * WAVES && stats->failed == 0);
    /* A name gets its number when it is used the second time. */
    EXPECT(c, stats->announced_by_name == 2 * TENSORS);
    EXPECT(c, stats->announced_by_bit + stats->planned >= TENSORS * (WAVES - 2));
    EXPECT(c, stats->planned > 0 || stats->plan_exits > 0);
}

void suite_fusion(tutti *t, struct checks *c)
{
    static const struct setting plain_settings[] = { { "fusion_bytes", "1" }, { 0 } };
    static const struct setting small_settings[] = { { "fusion_bytes", "2k" },
        { "inflight", "1" }, { 0 } };
    tutti *fused = job_open(c, NULL);
    tutti *plain = job_open(c, plain_settings);
    tutti *small = job_open(c, small_settings);
    /* Several ranks agree for longer than they submit, so what is no group fuses, too. */
    const int grouped = c->size == 1 ? GROUPED : 0;
    tutti_stats stats;

    (void)t;
    checks_step(c, "fused");
    run_waves(fused, c, grouped, &stats);
    EXPECT(c, stats.batches < TENSORS * WAVES);
    checks_step(c, "not fused");
    run_waves(plain, c, 0, &stats);
    EXPECT(c, stats.batches == TENSORS * WAVES);
    checks_step(c, "fused into small batches");
    run_waves(small, c, grouped, &stats);
    EXPECT(c, stats.batches < TENSORS * WAVES);
    checks_step(c, "finalize");
    EXPECT_OK(c, tutti_finalize(fused));
    EXPECT_OK(c, tutti_finalize(plain));
    EXPECT_OK(c, tutti_finalize(small));
}
