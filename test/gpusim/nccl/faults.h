/*
 * Faults of the simulated NCCL, as rank:what:nth:value (gpusim_nccl_fail()). The rank is that in the communicator concerned, or * for any; nth counts from 1
 * what happens to that rank in this process, 0 is every time.
 *
 *   what            value
 *   ncclAllReduce   (any function) the call does nothing and returns this error
 *   async           ncclCommGetAsyncError tells this error once the launch runs; its kernel
 *                   stays until it is aborted
 *   init            the communicator is never ready (the value does not matter)
 *   late            the launch is on its stream, and polls of a communicator that does not
 *                   block say until it is aborted that it is in progress (the value does
 *                   not matter)
 *   abortmeets      ncclCommAbort waits for the other ranks of the node to come to theirs, but
 *                   not for such as have not come to the communicator (the value does not
 *                   matter)
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_FAULTS_H
#define TUTTI_TEST_GPUSIM_NCCL_FAULTS_H

#include <stdbool.h>

/* Counts that `what` happens to a rank; true when a fault wants it otherwise. */
bool fault_at(int rank, const char *what, long *value);

#endif
