/*
 * The suites' job where every rank is a process of MPI, and the watchdog of such programs.
 */
#ifndef TUTTI_TEST_MULTI_PROCESS_JOB_H
#define TUTTI_TEST_MULTI_PROCESS_JOB_H

#include <mpi.h>

#include "test/suite/job.h"

/**
 * Prepares the record and the job of this process; MPI is initialised. Contexts are made
 * over `*comm`, which stays the caller's. A program that takes too long says what each
 * rank does and ends.
 *
 * The variables SUITE_NODES and SUITE_CACHES have a character for each rank: ranks of equal
 * ones say that they share a node, or a cache of it, and results are expected to be
 * reduced accordingly.
 */
void process_job_init(struct job *job, struct checks *c, MPI_Comm *comm);

/** Prints the counts of all ranks, and gives this rank's exit status. */
int process_job_end(struct job *job, struct checks *c);

#endif
