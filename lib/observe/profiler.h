/*
 * A profiler that looks: it sees where batches begin and end, by NVTX.
 */
#ifndef TUTTI_OBSERVE_PROFILER_H
#define TUTTI_OBSERVE_PROFILER_H

#include <stdint.h>

/**
 * The library's domain, if a tool has been injected into this process (Nsight Systems does so).
 * NULL: nobody looks.
 */
void *profiler_find(void);
/** Begins a range. */
uint64_t profiler_begin(void *domain, const char *name);
void profiler_end(void *domain, uint64_t range);

#endif
