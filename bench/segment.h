/*
 * Memory that all ranks of one host map: a part for each rank, and a place to meet.
 *
 * It is an unnamed file (memfd), so that nothing is left behind and a small /dev/shm does
 * not matter; ranks open that of rank 0 through /proc.
 */
#ifndef TUTTI_BENCH_SEGMENT_H
#define TUTTI_BENCH_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "bench/job.h"

/** Zeroed is closed. */
struct segment {
    unsigned char *base; /* of the mapping; NULL: none */
    size_t bytes; /* of the mapping */
    size_t part_bytes; /* of a rank: what it asked for, in whole pages */
    int rank, ranks;
    long patience; /* looks at a counter before others may have the core */
    uint64_t meetings; /* so far */
};

/**
 * Maps `bytes` or a little more for each rank, committed and zeroed. Collective over the
 * job, whose ranks must be on one host.
 * @return TUTTI_OK, or an error on all ranks, which the rank that met it has reported
 */
tutti_status segment_open(struct segment *segment, const struct job *job, size_t bytes);
void segment_close(struct segment *segment);

unsigned char *segment_part(const struct segment *segment, int rank);
/** Waits for all ranks; what they wrote before is seen after. */
void segment_meet(struct segment *segment);

#endif
