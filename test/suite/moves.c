/*
 * The blocking broadcast, and barriers.
 */
#include <stdint.h>
#include <stdio.h>

#include "test/suite/suite.h"

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
    blocking_broadcast(t, c);
    barrier_holds(t, c);
    many_barriers(t, c);
}
