/*
 * The fabric over MPI: control messages and tensor data on a communicator each.
 */
#ifndef TUTTI_FABRIC_MPI_FABRIC_H
#define TUTTI_FABRIC_MPI_FABRIC_H

#include <mpi.h>

#include "fabric/fabric.h"

/** What fabric->state points to. Errors return on the communicators. */
struct mpi_fabric {
    MPI_Comm channels[2]; /* by enum fabric_channel; borrowed */
    MPI_Status *statuses; /* [status_capacity] of a poll; owned */
    size_t status_capacity;
};

/**
 * Fills `fabric`, with the rank and size of the data communicator; it refers to `state`.
 * MPI must run, so that the calling thread may call it.
 */
void mpi_fabric_init(struct fabric *fabric, struct mpi_fabric *state, MPI_Comm control,
        MPI_Comm data);
/** Zeroed is valid. */
void mpi_fabric_fini(struct mpi_fabric *state);

/** Sets the last error to `what` and MPI's text for a code; @return TUTTI_ERR_MPI */
tutti_status mpi_error(int code, const char *what);

#endif
