/*
 * Control transport over MPI messages, and the life cycle of MPI itself.
 */
#ifndef TUTTI_CONTROL_MPI_H
#define TUTTI_CONTROL_MPI_H

#include <mpi.h>
#include <stdbool.h>

#include "control/control.h"

/** Communicators for the data plane at most. */
#define MPI_JOB_DATA_MAX 8

/** This process's part in an MPI job. Zeroed is valid for control_mpi_job_fini(). */
struct mpi_job {
    MPI_Comm control; /* for control messages; a duplicate, owned                     */
    MPI_Comm data[MPI_JOB_DATA_MAX]; /* for the data plane; duplicates, owned, the first
                                        data_count                                */
    int data_count;
    int thread_level; /* MPI_THREAD_*, as provided                                    */
    bool initialised; /* tutti called MPI_Init_thread and will call MPI_Finalize      */
};

/**
 * Takes part in an MPI job. comm == MPI_COMM_NULL: initialises MPI if nobody has
 * (MPI_THREAD_MULTIPLE) and uses MPI_COMM_WORLD. Duplicates comm twice (one for data) with
 * MPI_ERRORS_RETURN; no blocking MPI collective (MPI_Comm_idup, polled civilly).
 * @return TUTTI_OK, TUTTI_ERR_MPI (with MPI's text), TUTTI_ERR_INVALID
 */
tutti_status control_mpi_job_init(struct mpi_job *job, MPI_Comm comm);
/**
 * Duplicates the data plane's communicator until it has `count` of them. Collective.
 * @return TUTTI_OK, TUTTI_ERR_MPI (with MPI's text)
 */
tutti_status control_mpi_job_widen(struct mpi_job *job, int count);
/** Frees the duplicates; finalizes MPI if tutti initialised it. */
void control_mpi_job_fini(struct mpi_job *job);
/**
 * As control_mpi_job_fini(), for a job that failed. Messages of it may be under way, and
 * MPI, which names new communicators as freed ones, would deliver them in a later job: the
 * duplicates are freed only when MPI ends.
 */
void control_mpi_job_abandon(struct mpi_job *job);

/** Sets the last error to `what` and MPI's text for a code; @return TUTTI_ERR_MPI */
tutti_status control_mpi_error(int code, const char *what);

/**
 * Opens the transport over job->control.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_MPI
 */
tutti_status control_mpi_open(struct mpi_job *job, struct control *control);

#endif
