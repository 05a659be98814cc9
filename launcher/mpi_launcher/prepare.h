/*
 * From options and hosts to a command that can be run: finds the MPI launcher and checks the program.
 */
#ifndef TUTTI_LAUNCHER_MPI_LAUNCHER_PREPARE_H
#define TUTTI_LAUNCHER_MPI_LAUNCHER_PREPARE_H

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/mpi_launcher/detect.h"
#include "launcher/mpi_launcher/mpi_collectives.h"
#include "launcher/mpi_launcher/mpi_launcher.h"
#include "launcher/options.h"

/**
 * Finds the MPI launcher alone.
 * @param program  the MPI that the program is linked to
 * @return as detect_launcher()
 */
TUTTI_MUST_USE tutti_status launch_find(const struct options *options,
        const struct placement *placement, char *const *environment,
        const struct linked *program, struct detect_choice *choice);

/**
 * Refuses IPv6 addresses: to Open MPI's and MPICH's mpirun a ':' starts the slots.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names the host)
 */
TUTTI_MUST_USE tutti_status launch_check_hosts(const struct host_list *hosts);

/**
 * Builds the command for this machine and user. A program that is not here is an error
 * when ranks run here and a warning on stderr when all run elsewhere.
 * @param placement  where ranks run
 * @param[in,out] command  empty; released with launch_command_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no mpirun, or it or the program cannot be run
 *         like this),
 *         TUTTI_ERR_CONFIG (a TUTTI_ variable has a bad value), TUTTI_ERR_SYSTEM,
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status launch_prepare(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct launch_command *command);

#endif
