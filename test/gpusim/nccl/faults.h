/*
 * Faults of the simulated NCCL: GPUSIM_NCCL_FAIL is a list of rank:what:nth:value, separated
 * by commas. The rank is that in the communicator concerned, or * for any; nth counts from 1
 * what happens to that rank in this process, 0 is every time.
 *
 *   what            value
 *   ncclAllReduce   (any function) the call does nothing and returns this error
 *   async           ncclCommGetAsyncError tells this error once the launch runs; its kernel
 *                   stays until it is aborted
 *   kernel          the launch ends with this sticky CUDA error
 *   slow            the launch starts so many microseconds late
 *   skip            the collective does nothing, silently (the value does not matter)
 *   init            the communicator is never ready (the value does not matter)
 *   late            the launch is on its stream, and polls of a communicator that does not
 *                   block say until it is aborted that it is in progress (the value does
 *                   not matter)
 *   abort           ncclCommAbort ends so many microseconds later; 0: never
 *   destroy         the same of ncclCommDestroy
 *   abortmeets      ncclCommAbort waits for the other ranks of the node to come to theirs, but
 *                   not for such as have not come to the communicator (the value does not
 *                   matter)
 *   deaf            the launch's kernel stays for ever, also when it is aborted (the value
 *                   does not matter)
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_FAULTS_H
#define TUTTI_TEST_GPUSIM_NCCL_FAULTS_H

#include <stdbool.h>

/* Counts that `what` happens to a rank; true when a fault wants it otherwise. */
bool fault_at(int rank, const char *what, long *value);

#endif
