/*
 * Broadcast of every type from every root, and barriers.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/gpu.h"
#include "test/suite/pattern.h"
#include "test/suite/suite.h"

/** One broadcast on its way. */
struct move {
    struct pattern pattern;
    size_t count;
    int root;
    struct buffer buffer;
    tutti_request request;
};

static void move_begin(tutti *t, struct checks *c, struct move *m)
{
    char name[64];

    buffer_init(&m->buffer, m->count * tutti_dtype_size(m->pattern.dtype));
    if (c->rank == m->root) {
        pattern_fill(&m->pattern, m->root, m->buffer.data, m->count);
    }
    (void)snprintf(name, sizeof name, "%zu %s from %d", m->count,
            tutti_dtype_name(m->pattern.dtype), m->root);
    EXPECT_OK(c,
            tutti_broadcast_async(t, name, m->buffer.data, (int64_t)m->count,
                    m->pattern.dtype, m->root, NULL, &m->request));
}

static void move_end(tutti *t, struct checks *c, struct move *m)
{
    struct buffer expected;

    EXPECT_OK(c, suite_gpu_wait(t, &m->request));
    buffer_init(&expected, m->buffer.bytes);
    pattern_fill(&m->pattern, m->root, expected.data, m->count);
    EXPECT(c, memcmp(m->buffer.data, expected.data, expected.bytes) == 0);
    EXPECT(c, buffer_is_intact(&m->buffer));
    buffer_fini(&expected);
    buffer_fini(&m->buffer);
}

static void every_root(tutti *t, struct checks *c)
{
    static const size_t counts[] = { 0, 1, 1000 };
    struct move moves[3 * (TUTTI_FLOAT8_E5M2 + 1)];
    const size_t n = sizeof moves / sizeof *moves;

    checks_step(c, "broadcast");
    for (int root = 0; root < c->size; root++) {
        for (size_t i = 0; i < n; i++) {
            moves[i] = (struct move){ .pattern = { (tutti_dtype)(i / 3), TUTTI_SUM,
                                              (uint32_t)i },
                .count = counts[i % 3],
                .root = root };
            move_begin(t, c, &moves[i]);
        }
        for (size_t i = 0; i < n; i++) {
            move_end(t, c, &moves[i]);
        }
    }
}

static void large_broadcast(tutti *t, struct checks *c)
{
    struct move move = { .pattern = { TUTTI_INT32, TUTTI_SUM, 77 },
        .count = (size_t)1 << 20,
        .root = c->size - 1 };

    checks_step(c, "large broadcast");
    move_begin(t, c, &move);
    move_end(t, c, &move);
}

/* The blocking form, and a shape that all ranks give. */
static void blocking_broadcast(tutti *t, struct checks *c)
{
    const int64_t dims[2] = { 3, 5 };
    int16_t values[15];
    tutti_options options;

    for (int i = 0; i < 15; i++) {
        values[i] = (int16_t)(1000 * c->rank + i);
    }
    tutti_options_default(&options);
    options.ndim = 2;
    options.dims = dims;
    EXPECT_OK(c, tutti_broadcast(t, "shaped", values, 15, TUTTI_INT16, 0, &options));
    for (int i = 0; i < 15; i++) {
        EXPECT(c, values[i] == i);
    }
}

/* A barrier is not passed before the last rank has come. */
static void barrier_holds(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    tutti_request request = TUTTI_REQUEST_NULL;

    checks_step(c, "a barrier holds");
    if (!late) {
        EXPECT_OK(c, tutti_barrier_async(t, "late", NULL, &request));
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(t, &request, 1000000));
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c, tutti_barrier_async(t, "late", NULL, &request));
    }
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
}

/* Several at once, begun in different orders; the same name is another operation's. */
static void many_barriers(tutti *t, struct checks *c)
{
    enum {
        BARRIERS = 20
    };
    tutti_request requests[BARRIERS];
    char name[16];

    checks_step(c, "many barriers");
    for (int i = 0; i < BARRIERS; i++) {
        const int k = (i * 3 + c->rank) % BARRIERS;

        (void)snprintf(name, sizeof name, "%d", k);
        EXPECT_OK(c, tutti_barrier_async(t, name, NULL, &requests[k]));
    }
    EXPECT_OK(c, tutti_wait_all(t, BARRIERS, requests, TUTTI_FOREVER, NULL));
}

void suite_moves(tutti *t, struct checks *c)
{
    every_root(t, c);
    large_broadcast(t, c);
    blocking_broadcast(t, c);
    barrier_holds(t, c);
    many_barriers(t, c);
}
