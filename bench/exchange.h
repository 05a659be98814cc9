/*
 * The bare exchange of an allreduce between hosts: what tutti's data plane does for
 * all batches, without anything to agree on. No names, no requests, no engine.
 *
 * It is the same code on the same layout: the core's planner makes batches of all tensors
 * in the order of their submission, with the parameters of the job, and the messages are
 * those of the MPI backend, with the fusion buffers and the window of batches in flight
 * that the dispatcher would give it. So what tutti takes longer is what agreement costs.
 */
#ifndef TUTTI_BENCH_EXCHANGE_H
#define TUTTI_BENCH_EXCHANGE_H

#include "bench/work.h"

struct exchange;

/**
 * Lays out the batches of an opened work, an allreduce in place, and opens the backend on
 * a communicator of its own. Collective.
 * @param[out] exchange  for exchange_close(), also after a failure
 */
tutti_status exchange_open(struct exchange **exchange, const struct work *work);
/** NULL does nothing. Collective. */
void exchange_close(struct exchange *exchange);

#endif
