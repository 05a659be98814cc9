/*
 * A process's part in an MPI job, and the life cycle of MPI itself.
 */
#ifndef TUTTI_FABRIC_MPI_JOB_H
#define TUTTI_FABRIC_MPI_JOB_H

#include <mpi.h>
#include <stdbool.h>

#include "fabric/mpi/mpi_fabric.h"
#include "transport/job.h"

/** This process's part in an MPI job. Zeroed is valid for mpi_job_fini(). */
struct mpi_job {
    struct job job; /* first: mpi_job_join() makes it */
    MPI_Comm control; /* for control messages; a duplicate, owned                     */
    MPI_Comm data; /* for the data plane; a duplicate, owned                         */
    struct mpi_fabric fabric; /* over both: the state of job.fabric                  */
    bool ends_mpi; /* tutti initialised MPI, which ends with the last of such jobs       */
};

/**
 * Takes part in an MPI job. comm == MPI_COMM_NULL: initialises MPI if nobody has
 * (MPI_THREAD_MULTIPLE) and uses MPI_COMM_WORLD. Duplicates comm twice (one for data) with
 * MPI_ERRORS_RETURN; no blocking MPI collective (MPI_Comm_idup, polled with pauses).
 * The job's address may not change: its fabric refers to it.
 * @return TUTTI_OK, TUTTI_ERR_MPI (with MPI's text), TUTTI_ERR_INVALID
 */
tutti_status mpi_job_init(struct mpi_job *job, MPI_Comm comm);
/**
 * Lets go of the duplicates. Where messages may be under way, MPI, which names new
 * communicators as freed ones, would deliver them in a later job: then they are freed only
 * when MPI ends. Finalizes MPI with the last job for which tutti has initialised it.
 * @return TUTTI_OK; errors of mpi_life_end()
 */
tutti_status mpi_job_fini(struct mpi_job *job, enum job_end end);

/**
 * job_source.join: a job of its own memory. user: NULL for MPI's world, or an MPI_Comm.
 * @return as mpi_job_init(); TUTTI_ERR_MPI also where another launcher has started the world
 */
tutti_status mpi_job_join(void *user, bool refuses, struct job **job);

/** True while MPI takes calls. */
bool mpi_is_on(void);

#endif
