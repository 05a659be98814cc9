/*
 * Inputs that differ between ranks, and the exact result of a collective on them.
 *
 * The values repeat with a prime period, so a slice that lands in the wrong place does
 * not fit, and the expected result of one period, computed the slow way over all ranks,
 * serves for any length. Values are small integers, chosen per type and reduction so that
 * the result is exact; a rank that is counted twice or missed changes it.
 */
#ifndef TUTTI_BENCH_CORE_PATTERN_H
#define TUTTI_BENCH_CORE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#define BENCH_PATTERN_PERIOD 61
#define BENCH_ELEMENT_MAX 8

/** Which collective the pattern is for. */
struct bench_operation {
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_reduce_op op; /* of a reduction */
    int root; /* where there is one */
};

struct bench_pattern {
    size_t element_bytes;
    unsigned char input[BENCH_PATTERN_PERIOD * BENCH_ELEMENT_MAX]; /* this rank's */
    unsigned char expected[BENCH_PATTERN_PERIOD * BENCH_ELEMENT_MAX]; /* see init */
};

/** Bytes per element; what tutti_dtype_size() says, without the library. */
size_t bench_dtype_bytes(tutti_dtype dtype);
/** True when tutti can do the operation: no sum of bool, nothing of float8. */
bool bench_operation_is_valid(const struct bench_operation *operation);

/**
 * Computes both periods for rank `rank` of `ranks`. Expected is what was reduced, or what
 * comes from the root (rank 0 where there is none).
 */
void bench_pattern_init(struct bench_pattern *pattern,
        const struct bench_operation *operation, int rank, int ranks);
/** Expects the input of rank `source` instead, for what comes from several ranks. */
void bench_pattern_expect_input_of(struct bench_pattern *pattern,
        const struct bench_operation *operation, int source, int ranks);
/** Writes the input; element i gets the period's element (i + phase). */
void bench_pattern_fill(const struct bench_pattern *pattern, void *buffer,
        uint64_t count, uint64_t phase);
/** Number of elements that differ from the expected result in any bit. */
uint64_t bench_pattern_count_wrong(const struct bench_pattern *pattern,
        const void *buffer, uint64_t count, uint64_t phase);

#endif
