/*
 * The ends of communicators.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_END_H
#define TUTTI_TEST_GPUSIM_NCCL_END_H

#include "test/gpusim/nccl/comm.h"

/* Jobs; NULL: out of memory. */
struct job *end_finalize(nccl_comm comm);
/* Waits for the other processes of the node, too: ncclCommDestroy is a collective there. */
struct job *end_destroy(nccl_comm comm);
/* The caller has told the communicator to quit. */
struct job *end_abort(nccl_comm comm);

#endif
