/*
 * MPI's life in this process: who initialised it, and how it ends. It is initialised and
 * finalized once in a process, which may have several jobs at a time.
 */
#ifndef TUTTI_FABRIC_MPI_LIFE_H
#define TUTTI_FABRIC_MPI_LIFE_H

#include <mpi.h>
#include <stdbool.h>

#include <tutti/tutti.h>

/** Before all else here: TUTTI_ERR_MPI in a child of a process that has called this. Any thread. */
TUTTI_MUST_USE tutti_status mpi_life_check(void);

/**
 * A job begins: makes sure that MPI runs and takes calls, and initialises it where nobody
 * has and `may_initialise`.
 * @param[out] counts  tutti initialised MPI: mpi_life_end() is owed, and MPI ends with the
 *                     last job that owes it
 * @return TUTTI_OK, TUTTI_ERR_MPI; nothing is owed then
 */
TUTTI_MUST_USE tutti_status mpi_life_begin(bool may_initialise, bool *counts);
/** Where all ranks will meet before the end; the first such communicator counts. */
void mpi_life_meet_on(MPI_Comm world);
/** True for that communicator: it stays until the end. */
bool mpi_life_keeps(MPI_Comm comm);
/**
 * A job that counts has ended. The last one finalizes MPI when all ranks have come so far.
 * It waits for them; where a job has failed, of this rank's, for a moment only, and then
 * leaves MPI as it is: MPI_Finalize would wait for who does not come.
 * @param look  NULL, or called from time to time by the last one: an error says that not all
 *              will come, and ends the wait soon
 * @return TUTTI_OK, TUTTI_ERR_MPI (MPI is left as it is), errors of look
 */
tutti_status mpi_life_end(
        bool has_failed, tutti_status (*look)(void *user), void *user);

/**
 * Counts as a job that has begun, until mpi_life_release() ends it. Held already, or MPI not
 * initialised by tutti: nothing.
 * @return as mpi_life_begin()
 */
TUTTI_MUST_USE tutti_status mpi_life_hold(void);
/** @return as mpi_life_end(); TUTTI_OK when nothing is held */
tutti_status mpi_life_release(void);

/** Waits for a request without keeping a core that others may need; MPI's code. */
int mpi_life_await(MPI_Request *request);

#endif
