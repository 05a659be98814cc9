/*
 * A training loop, as a function of the number of the step.
 */
#include "bench/core/program.h"

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
