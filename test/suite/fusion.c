/*
 * Fusion: many small tensors of different kinds, submitted in a different order on each
 * rank, again and again; fused or not, every bit as the definition says.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/pattern.h"
#include "test/suite/suite.h"

enum {
    TENSORS = 300,
    WAVES = 4
};

/** A tensor of the model. */
struct gradient {
    struct pattern pattern;
    struct scales scales;
    size_t count;
    struct buffer data;
    tutti_request request;
};

static void choose(struct gradient *g, int i, int wave)
{
    static const struct pattern kinds[] = { { TUTTI_FLOAT32, TUTTI_SUM, 0 },
        { TUTTI_FLOAT16, TUTTI_AVERAGE, 0 }, { TUTTI_BFLOAT16, TUTTI_SUM, 0 },
        { TUTTI_FLOAT64, TUTTI_MAX, 0 }, { TUTTI_INT32, TUTTI_SUM, 0 },
        { TUTTI_INT8, TUTTI_AVERAGE, 0 }, { TUTTI_UINT16, TUTTI_MIN, 0 },
        { TUTTI_FLOAT32, TUTTI_AVERAGE, 0 } };
    const int kind = i % 8;

    g->pattern = kinds[kind];
    g->pattern.salt = (uint32_t)(1000 * wave + i);
    g->scales = (struct scales){ 1, 1 };
    if (kind < 3 && i % 5 < 2) {
        g->scales = i % 5 == 0 ? (struct scales){ 0.25, 1 } : (struct scales){ 1, 1.5 };
    }
    g->count = 1 + pattern_mix(7, (uint64_t)i) % (i % 30 == 0 ? 5000 : 60);
}

static void submit(tutti *t, struct checks *c, struct gradient *g, int i)
{
    tutti_options options;
    char name[32];

    tutti_options_default(&options);
    options.prescale = g->scales.pre;
    options.postscale = g->scales.post;
    (void)snprintf(name, sizeof name, "layer %d", i);
    buffer_init(&g->data, g->count * tutti_dtype_size(g->pattern.dtype));
    pattern_fill(&g->pattern, c->rank, g->data.data, g->count);
    EXPECT_OK(c,
            tutti_allreduce_async(t, name, g->data.data, g->data.data,
                    (int64_t)g->count, g->pattern.dtype, g->pattern.op, &options,
                    &g->request));
}

static void verify(struct checks *c, struct gradient *g)
{
    struct buffer expected;

    buffer_init(&expected, g->data.bytes);
    pattern_expect(&g->pattern, c->size, g->scales, expected.data, g->count);
    EXPECT(c, memcmp(g->data.data, expected.data, expected.bytes) == 0);
    EXPECT(c, buffer_is_intact(&g->data));
    buffer_fini(&expected);
    buffer_fini(&g->data);
}

static void run_wave(tutti *t, struct checks *c, int wave)
{
    struct gradient *gradients = must_alloc(TENSORS, sizeof *gradients);
    tutti_request *requests = must_alloc(TENSORS, sizeof *requests);
    int order[TENSORS];

    pattern_shuffle(order, TENSORS, (uint64_t)(100 * c->rank + wave));
    for (int i = 0; i < TENSORS; i++) {
        choose(&gradients[order[i]], order[i], wave);
        submit(t, c, &gradients[order[i]], order[i]);
        requests[i] = gradients[order[i]].request;
    }
    EXPECT_OK(c, tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL));
    for (int i = 0; i < TENSORS; i++) {
        EXPECT(c, requests[i] == TUTTI_REQUEST_NULL);
        verify(c, &gradients[i]);
    }
    free(requests);
    free(gradients);
}

static void run_waves(tutti *t, struct checks *c, tutti_stats *stats)
{
    for (int wave = 0; wave < WAVES; wave++) {
        run_wave(t, c, wave);
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
    tutti_stats stats;

    (void)t;
    checks_step(c, "fused");
    run_waves(fused, c, &stats);
    EXPECT(c, stats.batches < TENSORS * WAVES);
    checks_step(c, "not fused");
    run_waves(plain, c, &stats);
    EXPECT(c, stats.batches == TENSORS * WAVES);
    checks_step(c, "fused into small batches");
    run_waves(small, c, &stats);
    EXPECT(c, stats.batches < TENSORS * WAVES);
    checks_step(c, "finalize");
    EXPECT_OK(c, tutti_finalize(fused));
    EXPECT_OK(c, tutti_finalize(plain));
    EXPECT_OK(c, tutti_finalize(small));
}
