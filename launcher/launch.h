/*
 * From options to a command that can be run: finds mpirun and checks the program.
 */
#ifndef TUTTI_LAUNCHER_LAUNCH_H
#define TUTTI_LAUNCHER_LAUNCH_H

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/options.h"

/**
 * Builds the command for this machine and user. A program that is not here is an error
 * when ranks run here and a warning on stderr when all run elsewhere.
 * @param[in,out] command  an empty list
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no mpirun, or it or the program cannot be run
 *         like this),
 *         TUTTI_ERR_CONFIG (a TUTTI_ variable has a bad value), TUTTI_ERR_SYSTEM,
 *         TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status launch_prepare(const struct options *options,
        char *const *environment, struct arguments *command);

/**
 * The path of the program that would start the ranks.
 * @param[out] file  room for PATH_MAX bytes
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is none)
 */
TUTTI_MUST_USE tutti_status launch_find_engine(
        const struct options *options, char *const *environment, char *file);

#endif
