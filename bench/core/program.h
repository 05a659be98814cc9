/*
 * What the steps of the synthetic programs do that the steps before them did not: those
 * of an adversary of plan mode, and those of a training loop. Equal on all ranks:
 * everything follows from the number of the step.
 */
#ifndef TUTTI_BENCH_CORE_PROGRAM_H
#define TUTTI_BENCH_CORE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The ways to depart from the plan that was just learnt. */
enum bench_adversary {
    BENCH_ADVERSARY_COUNT, /* a tensor has other metadata */
    BENCH_ADVERSARY_SET, /* a tensor is missing, or has another name */
    BENCH_ADVERSARY_WAIT, /* a tensor is waited for before the others are submitted */
    BENCH_ADVERSARIES
};

/** The names of the workloads: "adversarial-count", ... */
extern const char *const bench_adversary_names[BENCH_ADVERSARIES];

/** Finds one by its name; false when there is none. */
bool bench_adversary_find(const char *name, enum bench_adversary *adversary);

/** What becomes of one tensor in a step. */
enum bench_change {
    BENCH_UNCHANGED,
    BENCH_OTHER_COUNT, /* half of its elements */
    BENCH_LEFT_OUT,
    BENCH_OTHER_NAME,
    BENCH_WAITED_FOR /* before what comes after it is submitted */
};

struct bench_adversity {
    enum bench_change change;
    size_t tensor; /* 0 when nothing is changed */
};

/** The first steps are alike, so that there is a plan to depart from. */
#define BENCH_CALM_STEPS 5

/**
 * What a step, counted from 0, changes: another tensor than the `hold` steps before it.
 * @param tensors  how many there are, at least 1
 */
struct bench_adversity bench_adversity_at(
        enum bench_adversary adversary, size_t tensors, uint64_t step, uint64_t hold);

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
