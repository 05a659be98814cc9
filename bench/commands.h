/*
 * The commands of tutti-bench, one file each. All are collective over the job, print on
 * rank 0, and report failures themselves.
 */
#ifndef TUTTI_BENCH_COMMANDS_H
#define TUTTI_BENCH_COMMANDS_H

#include "bench/job.h"

/** One collective: the columns of nccl-tests. */
tutti_status run_sweep(struct job *job);
tutti_status run_latency(struct job *job);
tutti_status run_workload(struct job *job);
tutti_status run_idle(struct job *job);
tutti_status run_overlap(struct job *job);
tutti_status run_steady(struct job *job);

#endif
