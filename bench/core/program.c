/*
 * The synthetic programs, as functions of the number of the step.
 */
#include "bench/core/program.h"

#include <string.h>

const char *const bench_adversary_names[BENCH_ADVERSARIES] = {
    [BENCH_ADVERSARY_COUNT] = "adversarial-count",
    [BENCH_ADVERSARY_SET] = "adversarial-set",
    [BENCH_ADVERSARY_WAIT] = "adversarial-wait",
};

bool bench_adversary_find(const char *name, enum bench_adversary *adversary)
{
    for (int i = 0; i < BENCH_ADVERSARIES; i++) {
        if (strcmp(bench_adversary_names[i], name) == 0) {
            *adversary = (enum bench_adversary)i;
            return true;
        }
    }
    return false;
}

/* The tensor of the n-th change: far from the last one, so in another batch. */
static size_t tensor_of(uint64_t n, size_t tensors)
{
    /* a stride that has no divisor in common with the number gets to each of them */
    return (size_t)(n * (tensors % 7 == 0 ? 1 : 7) % tensors);
}

struct bench_adversity bench_adversity_at(
        enum bench_adversary adversary, size_t tensors, uint64_t step, uint64_t hold)
{
    struct bench_adversity adversity = { .change = BENCH_UNCHANGED };
    uint64_t n;

    if (step < BENCH_CALM_STEPS) {
        return adversity;
    }
    n = (step - BENCH_CALM_STEPS) / hold;
    adversity.tensor = tensor_of(n, tensors);
    switch (adversary) {
    case BENCH_ADVERSARY_COUNT:
        adversity.change = BENCH_OTHER_COUNT;
        break;
    case BENCH_ADVERSARY_SET:
        /* by turns, and of each tensor both in the end */
        adversity.change =
                (n + n / tensors) % 2 == 0 ? BENCH_LEFT_OUT : BENCH_OTHER_NAME;
        break;
    case BENCH_ADVERSARY_WAIT:
        adversity.change = BENCH_WAITED_FOR;
        break;
    case BENCH_ADVERSARIES:
        break;
    }
    return adversity;
}

/* The last of every `period` steps. */
static bool ends(uint64_t step, uint64_t period)
{
    return step % period == period - 1;
}

struct bench_training bench_training_at(uint64_t step)
{
    return (struct bench_training){
        .straggles = ends(step, 7),
        .accumulates = ends(step, 4),
        .measures = ends(step, 5),
        .evaluates = ends(step, 10),
    };
}
