/*
 * The kinds of steps that `workload` measures.
 */
#ifndef TUTTI_BENCH_WORKLOAD_H
#define TUTTI_BENCH_WORKLOAD_H

#include "bench/core/program.h"
#include "bench/measure.h"

/** Measures an opened work, prints and writes its row. */
tutti_status workload_measure(struct work *work);

/** Steps that depart from the plan that was just learnt, in one of the ways. */
tutti_status workload_adversarial(struct job *job, enum bench_adversary adversary);
/** A training loop, with heads of its own. */
tutti_status workload_trainer(struct job *job);

#endif
