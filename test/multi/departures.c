/*
 * Plans over messages, some of whose batches have operands that come with the arrivals: steps
 * that are unlike the one before leave the plan, in the middle of what is under way, and lose
 * nothing.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/suite/checks.h"

enum {
    TENSORS = 10,
    COUNT_MAX = 60000, /* several chunks, and messages that MPI does not buffer */
    STEPS = 160 /* some of which are unlike the one before               */
};

static const int64_t counts[TENSORS] = { 1, 3, 500, 20, COUNT_MAX, 2, 9000, 64, 1,
    130 };

struct program {
    tutti *t;
    struct checks *c;
    int step;
    int32_t *inputs[TENSORS]; /* owned */
    int32_t *outputs[TENSORS]; /* owned */
    tutti_request requests[TENSORS];
};

static int64_t count_of(const struct program *p, int tensor)
{
    const int64_t rows = p->c->size;

    if (p->step % 48 == 25 && tensor == 7) {
        return counts[tensor] - 1; /* unlike the last time */
    }
    return tensor == 8 ? (counts[tensor] + rows - 1) / rows * rows : counts[tensor];
}

static void begin(struct program *p, int tensor)
{
    const int64_t count = count_of(p, tensor);
    tutti_request *request = &p->requests[tensor];
    int32_t *input = p->inputs[tensor];
    int32_t *output = p->outputs[tensor];
    char name[32];

    (void)snprintf(name, sizeof name, "tensor %d", tensor);
    for (int64_t i = 0; i < count; i++) {
        input[i] = (int32_t)(p->c->rank + 1) * (int32_t)(p->step + tensor + i % 100);
        output[i] = -1;
    }
    if (tensor == 8) {
        EXPECT_OK(p->c,
                tutti_reducescatter_async(p->t, name, input, output, count, 1, NULL,
                        TUTTI_INT32, TUTTI_SUM, NULL, request));
    } else if (tensor == 3) {
        EXPECT_OK(p->c,
                tutti_reduce_async(p->t, name, input, output, count, TUTTI_INT32,
                        TUTTI_SUM, p->c->size - 1, NULL, request));
    } else {
        EXPECT_OK(p->c,
                tutti_allreduce_async(p->t, name, input, output, count, TUTTI_INT32,
                        TUTTI_SUM, NULL, request));
    }
}

static void end(struct program *p, int tensor)
{
    const int32_t ranks = (int32_t)(p->c->size * (p->c->size + 1) / 2);
    int64_t count = count_of(p, tensor);
    int64_t first = 0;
    int64_t wrong = 0;

    EXPECT_OK(p->c, tutti_wait(p->t, &p->requests[tensor], TUTTI_FOREVER));
    if (tensor == 8) {
        count /= p->c->size;
        first = count * p->c->rank;
    } else if (tensor == 3 && p->c->rank != p->c->size - 1) {
        count = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        wrong += p->outputs[tensor][i] !=
                ranks * (int32_t)(p->step + tensor + (first + i) % 100);
    }
    EXPECT(p->c, wrong == 0);
}

/* Sometimes all leave one out. */
static bool has(const struct program *p, int tensor)
{
    return p->step % 48 != 40 || tensor != 4;
}

static void pause_a_while(const struct program *p)
{
    const struct timespec nap = { .tv_nsec = 300000 };

    if ((p->step + p->c->rank) % 3 == 0) {
        (void)nanosleep(&nap, NULL);
    }
}

/* Everything, and then waits. */
static void run_step(struct program *p)
{
    for (int i = 0; i < TENSORS; i++) {
        if (has(p, i)) {
            begin(p, i);
        }
        if (i == TENSORS / 2) {
            pause_a_while(p);
        }
    }
    for (int i = 0; i < TENSORS; i++) {
        if (has(p, i)) {
            end(p, i);
        }
    }
}

/* One after the other, from the last to the first: the plan is in its way. */
static void run_step_backwards(struct program *p)
{
    for (int i = TENSORS - 1; i >= 0; i--) {
        if (has(p, i)) {
            begin(p, i);
            end(p, i);
        }
    }
}

static tutti_stats stats_of(const struct program *p)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(p->c, tutti_stats_get(p->t, &stats));
    return stats;
}

static void test_departures(struct program *p)
{
    tutti_stats stats;

    for (; p->step < STEPS; p->step++) {
        if (p->step % 12 == 8 && p->step / 12 % p->c->size == p->c->rank) {
            run_step_backwards(p);
        } else {
            run_step(p);
        }
    }
    stats = stats_of(p);
    EXPECT(p->c, stats.planned > 0);
    EXPECT(p->c, stats.plan_exits > 0);
}

static void open_program(struct program *p, const char *fusion_bytes)
{
    tutti_config *config = NULL;

    EXPECT_OK(p->c, tutti_config_create(&config));
    EXPECT_OK(p->c, tutti_config_set(config, "backend", "mpi"));
    EXPECT_OK(p->c, tutti_config_set(config, "fusion_bytes", fusion_bytes));
    EXPECT_OK(p->c, tutti_init(&p->t, config));
    tutti_config_destroy(config);
    p->c->rank = tutti_rank(p->t);
    p->c->size = tutti_size(p->t);
    for (int i = 0; i < TENSORS; i++) {
        p->inputs[i] = calloc(COUNT_MAX + 64, sizeof(int32_t));
        p->outputs[i] = calloc(COUNT_MAX + 64, sizeof(int32_t));
        EXPECT(p->c, p->inputs[i] != NULL && p->outputs[i] != NULL);
    }
}

static void close_program(struct program *p)
{
    EXPECT_OK(p->c, tutti_finalize(p->t));
    for (int i = 0; i < TENSORS; i++) {
        free(p->inputs[i]);
        free(p->outputs[i]);
    }
}

/* Few batches in a step, and more than a rank may begin ahead of the others. */
int main(void)
{
    struct checks checks = { .rank = -1 };
    struct program fused = { .c = &checks };
    struct program single = { .c = &checks };

    atomic_store(&checks.topic, "plans that are left");
    open_program(&fused, "1m");
    open_program(&single, "0");
    test_departures(&fused);
    test_departures(&single);
    close_program(&single);
    close_program(&fused);
    printf("rank %d: %d checks, %d failed\n", checks.rank, checks.made, checks.failed);
    return checks.failed == 0 ? 0 : 1;
}
