/*
 * Runs the suite with ranks that are processes.
 *
 *   suite_mpi [--list] [--without topic]... [--gpu] [--nccl file] [topic...]
 *                                                        (under mpirun)
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/fabric/mpi/mpi_end.h"
#include "process_job.h"
#include "test/suite/suite.h"

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    struct suite_selection selection;
    struct checks checks;
    struct job job;
    int level = 0;
    int status;

    if (!suite_select(argc, argv, &selection) ||
            MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, &checks, &world);
    if (selection.gpu) {
        suite_begin_gpu(selection.nccl, job.size);
    }
    if (EXPECT(&checks, level == MPI_THREAD_MULTIPLE)) {
        suite_run(&selection, &checks);
    }
    status = process_job_end(&job, &checks);
    mpi_end(getenv("PMI_FD"));
    return status;
}
