/*
 * Exchanges of device memory whose sizes not all ranks know: NCCL takes only parts whose sizes both
 * sides know, so the members tell each other over a backend of host memory, by an alltoall
 * under the same sequence number. Meanwhile no later batch of device memory is launched, so that
 * their order stays (run/order.h). Engine only.
 */
#ifndef TUTTI_RUN_SIZES_H
#define TUTTI_RUN_SIZES_H

#include <stdbool.h>

#include <tutti/tutti.h>

struct batch;
struct tutti;

/** Makes batch->op the question. Errors: TUTTI_ERR_NO_MEMORY. */
tutti_status sizes_ask(struct batch *batch);
/** It has been answered: batch->op is what it was, with known sizes. */
void sizes_take(struct batch *batch);
/** True while a batch waits for its answer. */
bool sizes_are_awaited(const struct tutti *t);

#endif
