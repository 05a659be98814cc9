/*
 * What the exported functions share.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_API_H
#define TUTTI_TEST_GPUSIM_NCCL_API_H

#include "test/gpusim/nccl/comm.h"

/* The version that this library stands for, as ncclGetVersion says it (version.c). */
extern const int api_version;

struct gpusim_nccl_live;

/* Fills in what the config that was given last says. */
void api_get_config(struct gpusim_nccl_live *live);
/* Counts a call by a rank (-1: of no communicator); an error if a fault wants one. */
nccl_result api_begin(const char *function, int rank);
/* The rank of a handle, -1 if it is none. */
int api_rank(nccl_comm comm);
/* api_begin(), and comm_enter(): the communicator is ready for work. */
nccl_result api_enter(nccl_comm comm, const char *function);
/* A failure of a call: a group that it is in fails, too. */
nccl_result api_failed(nccl_result result);

/* ---- faults.c ---- */

/*
 * Counts that `what` happens to a rank; true when a fault wants it otherwise. Faults are given as
 * rank:what:nth:value (gpusim_nccl_fail()). The rank is that in the communicator concerned, or *
 * for any; nth counts from 1 what happens to that rank in this process, 0 is every time.
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
bool fault_at(int rank, const char *what, long *value);

#endif
