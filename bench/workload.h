/*
 * What `workload` measures beside the gradients of a network.
 */
#ifndef TUTTI_BENCH_WORKLOAD_H
#define TUTTI_BENCH_WORKLOAD_H

#include "bench/measure.h"

/** A training loop, with heads of its own. */
tutti_status workload_trainer(struct job *job);

#endif
