/*
 * Counts of this process's allocations. The bench replaces malloc() and its relatives by
 * functions that count and pass on to the C library, and tells libtutti's calls from all
 * others by the address they return to. What tutti asks of MPI or of the C library, which
 * then allocate, is among the others.
 */
#ifndef TUTTI_BENCH_ALLOCATIONS_H
#define TUTTI_BENCH_ALLOCATIONS_H

#include <stdint.h>

/** Calls of malloc(), calloc(), realloc() and the aligned ones. */
struct allocations {
    int64_t by_tutti; /* -1: not counted in this build */
    int64_t by_others; /* MPI, the bench, the C library; -1: likewise */
};

/** Counts from here on. Called once. */
void allocations_count(void);
/** Since allocations_count(). */
struct allocations allocations_now(void);

#endif
