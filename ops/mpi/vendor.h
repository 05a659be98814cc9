/*
 * The MPI library's own collectives.
 */
#ifndef TUTTI_OPS_MPI_VENDOR_H
#define TUTTI_OPS_MPI_VENDOR_H

#include "ops/op.h"

/**
 * The MPI library's MPI_Iallreduce and MPI_Ibcast, for comparison and for networks that
 * offload them: only the world set (index 0) and only what MPI reduces with the meaning
 * that tutti.h promises. The order of the summation, hence the bits, is MPI's.
 * op_env.native points to an MPI_Comm over all world ranks, on which errors return
 * (MPI_ERRORS_RETURN); it stays the caller's and must outlive the state.
 */
extern const struct op_backend op_mpi_vendor;

#endif
