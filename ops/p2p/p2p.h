/*
 * Messages: host memory over the point-to-point messages of any fabric.
 */
#ifndef TUTTI_OPS_P2P_P2P_H
#define TUTTI_OPS_P2P_P2P_H

#include "fabric/fabric.h"
#include "ops/op.h"

/**
 * Tutti's own algorithms over non-blocking point-to-point messages: every type, every
 * reduction, every set; bits independent of size, chunking and algorithm.
 * Exchanges take runs, the others one run of memory. op_env.native points to the
 * struct fabric of the job, which must outlive the state.
 */
extern const struct op_backend op_p2p;

/**
 * Measures the link to a rank of another node, for op_env.link; that rank calls it, too, with
 * the other `leads`. Takes milliseconds on a fast link, some 30 at 800 Mbit/s, and gives up
 * after 10 seconds. Before any batch.
 * @param long_bytes  the messages that are sent where long ones are as fast as short ones
 * @param[out] link   on the rank that leads; zeroed when it gave up
 * @return TUTTI_OK, TUTTI_ERR_MPI, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status p2p_link_measure(const struct fabric *fabric, int peer,
        bool leads, size_t long_bytes, struct op_link *link);

#endif
