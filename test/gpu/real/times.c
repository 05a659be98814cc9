/*
 * How long the host takes to issue an allreduce, and how long a step takes: for who reads them.
 */
#include <stdio.h>

#include "base/clock.h"
#include "bench/core/summary.h"
#include "test/gpu/real/suite.h"

enum {
    ROUNDS = 200, /* of what is measured */
    WARM = 20, /* rounds before, which are not counted */
    TENSORS = 60, /* of a step, each twice as large as ... */
    STEPS = 20,
    LEAST = 256, /* elements */
    SIZES = 12 /* ... the one before, this often; then again from the least */
};

static double us_since(int64_t begin_ns)
{
    return (double)(clock_ns() - begin_ns) * 1e-3;
}

/* Microseconds until `count` tensors are issued, and until the GPU is done. */
static void run(
        struct suite *s, void *const *memories, int count, double *issued, double *done)
{
    tutti_request requests[TENSORS] = { TUTTI_REQUEST_NULL };
    const int64_t begin_ns = clock_ns();

    for (int i = 0; i < count; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "times %d", i);
        EXPECT_OK(&s->c,
                suite_sum(s, name, memories[i], (size_t)LEAST << i % SIZES,
                        s->rig.stream, &requests[i]));
    }
    EXPECT_OK(&s->c,
            tutti_wait_stream_all(
                    s->t, (size_t)count, requests, s->rig.stream, TUTTI_FOREVER, NULL));
    *issued = us_since(begin_ns);
    DEVICE_MUST(&s->rig, stream_synchronize(s->rig.stream));
    *done = us_since(begin_ns);
}

/* Medians, of rank 0. */
static void measure(
        struct suite *s, const char *what, void *const *memories, int count, int rounds)
{
    double issued[ROUNDS];
    double done[ROUNDS];
    struct bench_summary host;

    for (int i = -WARM; i < rounds; i++) {
        run(s, memories, count, &issued[i < 0 ? 0 : i], &done[i < 0 ? 0 : i]);
    }
    host = bench_summarise(issued, (size_t)rounds);
    if (s->c.rank == 0 && !s->rig.simulated) {
        (void)printf(
                "times: %s: issued after %.1f us (99 %%: %.1f), done after %.1f us\n",
                what, host.median, host.p99,
                bench_summarise(done, (size_t)rounds).median);
    }
}

void suite_times(struct suite *s)
{
    const bool is_short = s->rig.simulated;
    void *memories[TENSORS];

    for (int i = 0; i < TENSORS; i++) {
        memories[i] = device_memory(&s->rig, (LEAST * sizeof(float)) << i % SIZES);
    }
    measure(s, "one tensor of 1 KiB", memories, 1, is_short ? 2 : ROUNDS);
    measure(s, "a step of 60 tensors, 20 MiB", memories, TENSORS, is_short ? 2 : STEPS);
    for (int i = 0; i < TENSORS; i++) {
        device_drop(&s->rig, memories[i]);
    }
}
