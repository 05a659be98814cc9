/*
 * Ranges for a profiler, as the core sees it: where batches begin and end.
 */
#ifndef TUTTI_OPS_RANGES_H
#define TUTTI_OPS_RANGES_H

#include <stdint.h>

/** Zeroed: nobody looks. */
struct ranges {
    uint64_t (*begin)(void *state, const char *name); /* NULL: nobody looks          */
    void (*end)(void *state, uint64_t range);
    void *state;
};

/**
 * Those of NVTX, in a domain of the library's own, if a tool has been injected into this process
 * (Nsight Systems does so); else zeroed.
 */
struct ranges nvtx_ranges(void);

#endif
