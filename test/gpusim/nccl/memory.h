/*
 * Memory of ncclMemAlloc, and what is registered with communicators.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_MEMORY_H
#define TUTTI_TEST_GPUSIM_NCCL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/gpusim/nccl/comm.h"

/* Counts a call whose memory is all registered with its communicator. */
void memory_count_call(nccl_comm comm, uint64_t start, size_t bytes,
        uint64_t other_start, size_t other_bytes);

#endif
