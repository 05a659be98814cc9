/*
 * What the machines did beside the job while it measured: processor time of other processes,
 * of interrupts, and what a hypervisor took away. Counted by the kernel in ticks of 10 ms.
 */
#ifndef TUTTI_BENCH_NOISE_H
#define TUTTI_BENCH_NOISE_H

#include "bench/job.h"

struct noise {
    double start_us; /* clock */
    double busy_us,
            own_us; /* processor time at the start: of this host, of this process */
    double cores; /* that others used, on all hosts together; NaN: not known */
};

void noise_start(struct noise *noise);
/** Collective. Sets `cores`; a time too short to count in ticks is not known. */
void noise_end(struct noise *noise, const struct job *job);

#endif
