/*
 * Memory of ncclMemAlloc, and what is registered with communicators.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_MEMORY_H
#define TUTTI_TEST_GPUSIM_NCCL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/gpusim/nccl/launch.h"

/*
 * Counts a call whose memory is all registered with its communicator, and notes where in it
 * the call's memory is, which must be the same on all ranks: 0 where it is not registered,
 * else 1, and more by the offset on the side that has the data of all ranks.
 */
void memory_note_call(nccl_comm comm, struct call *call);

#endif
