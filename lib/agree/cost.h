/*
 * What a batch of n bytes takes: T(n) = alpha + beta n, the start-up of a batch and the
 * time of a byte. Assumed at first, then fitted to batches that were timed. Pure.
 */
#ifndef TUTTI_AGREE_COST_H
#define TUTTI_AGREE_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Batches that differ by less than a power of two in length are one class. */
#define COST_CLASSES 48

struct cost {
    double alpha_ns; /* of a batch */
    double beta_ns; /* of a byte */
};

/** The fastest batch of a class: what made others slower was something else. */
struct cost_class {
    size_t bytes;
    int64_t ns; /* 0: none was timed */
};

struct cost_model {
    struct cost given; /* by the configuration; 0: to be measured */
    struct cost assumed; /* until enough batches were timed */
    struct cost_class classes[COST_CLASSES];
    uint64_t samples; /* batches timed, ever */
};

/**
 * @param given        what is known; a member that is 0 is measured
 * @param spans_nodes  whether batches travel between nodes
 */
void cost_init(struct cost_model *model, const struct cost *given, bool spans_nodes);

/** A batch of so many bytes took so long, with no other one beside it. */
void cost_sample(struct cost_model *model, size_t bytes, int64_t ns);

/**
 * The best guess: what is given; else what was measured, once that is enough, but within a
 * factor of 8 of what is assumed; else what is assumed.
 */
struct cost cost_estimate(const struct cost_model *model);

#endif
