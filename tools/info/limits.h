/*
 * What a collective takes at least on a machine: by the bytes that must be read and written
 * in memory, by those that must cross the link between nodes, and by the time until a rank
 * can know of another. Pure.
 *
 *     p ranks on a node, N nodes, S bytes as in the rows of tutti-bench
 *
 *                    memory of a node          link of a node, each way
 *     allreduce      2 p S                     2 (N-1)/N S
 *     reducescatter  (p + 1) S                 (N-1)/N S
 *     allgather      (p + 1) S                 (N-1)/N S
 *     broadcast      p S                       S
 *     alltoall       2 p S                     (N-1)/N p S
 *
 * Every rank reads what it gives and writes what it gets, once; what several ranks read is
 * read from memory once. docs/tuning.md says what the figures leave out.
 */
#ifndef TUTTI_TOOLS_INFO_LIMITS_H
#define TUTTI_TOOLS_INFO_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** Levels of memory, the nearest first; the last is memory itself. */
#define LEVELS_MAX 4

struct memory_level {
    const char *name; /* "L2" */
    size_t bytes; /* of one core's cache, or of the one that all share; memory: 0 */
    double read, write, copy; /* GB/s of one core; copy: read and written together */
    double all; /* GB/s of copy, of all cores together */
};

struct machine_facts {
    int cores; /* that this process may use */
    struct memory_level levels[LEVELS_MAX];
    int level_count;
    double flag_ns; /* a word from core to core, one way; 0: there is but one core */
    double wake_ns; /* a sleeping thread, from the call that wakes it until it runs */
    double syscall_ns;
    double link_us, link_mbs; /* latency, and each way; 0: one node, or not measured */
};

struct limits {
    double memory_us, link_us, latency_us;
};

struct limits limits_of(const struct machine_facts *machine,
        tutti_collective collective, int local_ranks, int nodes, uint64_t bytes);

/** The largest of them. */
double limits_us(const struct limits *limits);
/** "memory", "link" or "latency": which that is. */
const char *limits_name(const struct limits *limits);

#endif
