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

#endif
