/*
 * NCCL's kernels, which the first communicator of a context loads on a thread of its own, as
 * NCCL does (init.cc: ncclInitKernelsForDevice() asks for the attributes of each). Loading waits
 * for all that the device has to do, and breaks a capture of global mode.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_LOAD_H
#define TUTTI_TEST_GPUSIM_NCCL_LOAD_H

#include <stdbool.h>

#include "test/gpusim/nccl/comm.h"

/* Begins to load for the communicator's context, once. True: they are there. */
bool load_kernels(nccl_comm comm);
/* Waits until what was begun has ended: a thread of NCCL cannot be left. */
void load_wait(nccl_comm comm);

#endif
