/*
 * Sizes on the command line, and the sweep over them.
 */
#ifndef TUTTI_BENCH_CORE_SIZES_H
#define TUTTI_BENCH_CORE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Reads "4", "64k", "32M" or "1G" (powers of 1024, either case).
 * @param[out] bytes  written on success only
 * @return false for anything else, signs, fractions and overflow included
 */
bool bench_size_parse(const char *text, uint64_t *bytes);

/** Sizes from first to last, multiplied by factor or, when step is not 0, added to. */
struct bench_sweep {
    uint64_t first; /* bytes */
    uint64_t last; /* bytes, included when it is hit exactly */
    uint64_t factor; /* at least 2; used when step is 0 */
    uint64_t step; /* bytes; 0: multiply */
};

/** The size after *bytes; false, *bytes unchanged, when that is beyond the last. */
bool bench_sweep_next(const struct bench_sweep *sweep, uint64_t *bytes);

/** How often a thing of this many bytes is timed per round, when nobody said. */
int bench_default_iterations(uint64_t bytes);

#endif
