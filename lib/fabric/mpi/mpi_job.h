/*
 * A process's part in an MPI job, and the life cycle of MPI itself.
 */
#ifndef TUTTI_FABRIC_MPI_JOB_H
#define TUTTI_FABRIC_MPI_JOB_H

#include <mpi.h>
#include <stdbool.h>

#include "fabric/mpi/mpi_fabric.h"

/** This process's part in an MPI job. Zeroed is valid for mpi_job_fini(). */
struct mpi_job {
    MPI_Comm control; /* for control messages; a duplicate, owned                     */
    MPI_Comm data; /* for the data plane; a duplicate, owned                         */
    struct fabric fabric; /* over both                                              */
    struct mpi_fabric state; /* of it                                               */
    int thread_level; /* MPI_THREAD_*, as provided                                    */
    bool ends_mpi; /* tutti initialised MPI, which ends with the last of such jobs       */
    tutti_status (*look)(
            void *user); /* NULL, or set by the owner: see mpi_life_end() */
    void *user; /* its argument                                                        */
};

/** How a job comes to its end. */
enum mpi_job_end {
    MPI_JOB_ENDED, /* all ranks have left it, and no message is under way */
    MPI_JOB_NOT_BEGUN, /* no rank could begin it; messages may be under way */
    MPI_JOB_FAILED /* the same for one that ran; not all ranks may come to their end */
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
 * All ranks learn whether one has failed. Collective; allocates nothing.
 * @param mine  this rank's status, with the last error set where it is one
 * @return TUTTI_OK when all ranks came with it; else `mine`, or the status of the first rank
 *         that failed, whose text follows its number; TUTTI_ERR_MPI
 */
TUTTI_MUST_USE tutti_status mpi_job_agree(const struct mpi_job *job, tutti_status mine);
/**
 * Lets go of the duplicates. Where messages may be under way, MPI, which names new
 * communicators as freed ones, would deliver them in a later job: then they are freed only
 * when MPI ends. Finalizes MPI with the last job for which tutti has initialised it.
 * @return TUTTI_OK; errors of mpi_life_end()
 */
tutti_status mpi_job_fini(struct mpi_job *job, enum mpi_job_end end);

/** True while MPI takes calls. */
bool mpi_is_on(void);

#endif
