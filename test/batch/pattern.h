/*
 * Contents of tensors: a function of (salt, rank, index), so that a rank counted twice or
 * missed, and data of another tensor or another place, change the result. Periodic in the
 * index with a prime period, which no chunk or slice is a multiple of; so the expected
 * results of large tensors cost no more than those of small ones.
 */
#ifndef TUTTI_TEST_BATCH_PATTERN_H
#define TUTTI_TEST_BATCH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#define PATTERN_PERIOD ((size_t)1009)

/** What is reduced, and how: the values are chosen to suit the operation. */
struct pattern {
    tutti_dtype dtype;
    tutti_reduce_op op;
    uint32_t salt; /* different for each tensor */
};

/**
 * From now on floats are whole numbers from 1 to 3, or are not: then any order of few of them gives
 * the same bits. Of the whole process.
 */
void pattern_set_exact(bool exact);

/** A rank's input. Also for types that are only moved. */
void pattern_fill(const struct pattern *pattern, int rank, void *data, size_t count);

/** Scale factors of a reduction. */
struct scales {
    double pre;
    double post;
};

/** The result of the reduction over the inputs of ranks 0 to n - 1. */
void pattern_expect(const struct pattern *pattern, int n, struct scales scales,
        void *data, size_t count);

/** A well mixed number for anything that shall look random and be repeatable. */
uint64_t pattern_mix(uint64_t a, uint64_t b);

/** A permutation of 0 to n - 1. */
void pattern_shuffle(int *order, int n, uint64_t seed);

#endif
