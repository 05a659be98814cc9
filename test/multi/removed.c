/*
 * Sets that are removed right after one rank has gone another way than the others, whose messages
 * may still be under way. The next set has the same index, and so the same tags.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/suite/checks.h"

enum {
    ROUNDS = 30,
    STEPS = 6, /* in the third of which the tensors have numbers */
    TENSORS = 3,
    COUNT = 5000 /* messages that wait for their receiver */
};

struct program {
    tutti *t;
    struct checks *c;
    tutti_process_set set;
    int32_t *inputs[TENSORS]; /* owned */
    int32_t *outputs[TENSORS]; /* owned */
    tutti_request requests[TENSORS];
};

static void begin(struct program *p, int tensor, int step)
{
    tutti_options options;
    char name[32];

    tutti_options_default(&options);
    options.process_set = p->set;
    (void)snprintf(name, sizeof name, "tensor %d", tensor);
    for (int i = 0; i < COUNT; i++) {
        p->inputs[tensor][i] = (p->c->rank + 1) * (step + i % 100);
    }
    EXPECT_OK(p->c,
            tutti_allreduce_async(p->t, name, p->inputs[tensor], p->outputs[tensor],
                    COUNT, TUTTI_INT32, TUTTI_SUM, &options, &p->requests[tensor]));
}

static void end(struct program *p, int tensor, int step)
{
    const int ranks = p->c->size * (p->c->size + 1) / 2;
    int wrong = 0;

    EXPECT_OK(p->c, tutti_wait(p->t, &p->requests[tensor], TUTTI_FOREVER));
    for (int i = 0; i < COUNT; i++) {
        wrong += p->outputs[tensor][i] != ranks * (step + i % 100);
    }
    EXPECT(p->c, wrong == 0);
}

static void run_step(struct program *p, int step)
{
    for (int i = 0; i < TENSORS; i++) {
        begin(p, i, step);
    }
    for (int i = 0; i < TENSORS; i++) {
        end(p, i, step);
    }
}

/*
 * One rank waits for the last tensor before it begins the others.
 */
static void run_odd_step(struct program *p, int step)
{
    const bool odd = step % p->c->size == p->c->rank;

    begin(p, TENSORS - 1, step);
    if (odd) {
        end(p, TENSORS - 1, step);
    }
    for (int i = 0; i < TENSORS - 1; i++) {
        begin(p, i, step);
    }
    for (int i = 0; i < TENSORS - (odd ? 1 : 0); i++) {
        end(p, i, step);
    }
}

static void run_round(struct program *p, const int *ranks, int round)
{
    EXPECT_OK(p->c, tutti_process_set_create(p->t, ranks, p->c->size, &p->set));
    for (int step = 0; step < STEPS; step++) {
        run_step(p, round * STEPS + step);
    }
    run_odd_step(p, round);
    EXPECT_OK(p->c, tutti_process_set_destroy(p->t, p->set));
}

static void open_program(struct program *p)
{
    tutti_config *config = NULL;

    EXPECT_OK(p->c, tutti_config_create(&config));
    EXPECT_OK(p->c, tutti_config_set(config, "backend", "messages"));
    EXPECT_OK(p->c, tutti_init(&p->t, config));
    tutti_config_destroy(config);
    p->c->rank = tutti_rank(p->t);
    p->c->size = tutti_size(p->t);
    for (int i = 0; i < TENSORS; i++) {
        p->inputs[i] = calloc(COUNT, sizeof(int32_t));
        p->outputs[i] = calloc(COUNT, sizeof(int32_t));
        EXPECT(p->c, p->inputs[i] != NULL && p->outputs[i] != NULL);
    }
}

int main(void)
{
    struct checks checks = { .rank = -1 };
    struct program program = { .c = &checks };
    tutti_stats stats = { .size = sizeof stats };
    int ranks[16];

    atomic_store(&checks.topic, "sets that are removed");
    open_program(&program);
    for (int r = 0; r < checks.size; r++) {
        ranks[r] = r;
    }
    for (int round = 0; round < ROUNDS; round++) {
        run_round(&program, ranks, round);
    }
    EXPECT_OK(&checks, tutti_stats_get(program.t, &stats));
    EXPECT(&checks, stats.announced_by_bit >= (uint64_t)ROUNDS * (STEPS - 1) * TENSORS);
    EXPECT_OK(&checks, tutti_finalize(program.t));
    for (int i = 0; i < TENSORS; i++) {
        free(program.inputs[i]);
        free(program.outputs[i]);
    }
    printf("rank %d: %d checks, %d failed\n", checks.rank, checks.made, checks.failed);
    return checks.failed == 0 ? 0 : 1;
}
