/*
 * What the steps of a training loop do that the steps before them did not. Equal on all
 * ranks: everything follows from the number of the step.
 */
#ifndef TUTTI_BENCH_CORE_PROGRAM_H
#define TUTTI_BENCH_CORE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

/** What a training step does beside its gradients and its loss. */
struct bench_training {
    bool straggles; /* rank 0 is late: every 7th step */
    bool accumulates; /* one more micro step: every 4th */
    bool measures; /* metrics: every 5th */
    bool evaluates; /* an evaluation follows: every 10th */
};

/** After so many steps everything was there equally often. */
#define BENCH_TRAINING_PERIOD 140

/** What a step, counted from 0, does. */
struct bench_training bench_training_at(uint64_t step);

#endif
