/*
 * The MPI data plane: host memory over any MPI.
 *
 * op_env.native points to the MPI_Comm over all world ranks that the data travels on; it
 * stays the caller's and must outlive the state. Errors must return on it
 * (MPI_ERRORS_RETURN). The thread rules are those of op.h; MPI must have been initialised so
 * that the calling thread may call it.
 */
#ifndef TUTTI_OPS_MPI_MPI_H
#define TUTTI_OPS_MPI_MPI_H

#include "ops/op.h"

/**
 * Tutti's own algorithms over non-blocking point-to-point messages: every type, every
 * reduction, every set; bits independent of size, chunking and algorithm.
 * Exchanges take runs, the others one run of memory.
 */
extern const struct op_backend op_mpi;

/**
 * Measures the link to a rank of another node, for op_env.link; that rank calls it, too, with
 * the other `leads`. Takes milliseconds on a fast link, some 30 at 800 Mbit/s, and gives up
 * after 10 seconds. Before any batch.
 * @param native      as op_env.native
 * @param long_bytes  the messages that are sent where long ones are as fast as short ones
 * @param[out] link   on the rank that leads; zeroed when it gave up
 * @return TUTTI_OK, TUTTI_ERR_MPI, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status mpi_link_measure(const void *native, int peer, bool leads,
        size_t long_bytes, struct op_link *link);

/**
 * The MPI library's MPI_Iallreduce and MPI_Ibcast, for comparison and for networks that
 * offload them: only the world set (index 0) and only what MPI reduces with the meaning
 * that tutti.h promises. The order of the summation, hence the bits, is MPI's.
 */
extern const struct op_backend op_mpi_vendor;

#endif
