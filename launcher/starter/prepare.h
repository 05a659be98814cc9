/*
 * From options and hosts to the starter's command.
 */
#ifndef TUTTI_LAUNCHER_STARTER_PREPARE_H
#define TUTTI_LAUNCHER_STARTER_PREPARE_H

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/options.h"
#include "launcher/starter/detect.h"
#include "launcher/starter/starter.h"

/**
 * Finds the starter and the network, and builds the command that starts the ranks.
 * @param[in,out] command  empty; released with starter_command_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no starter, or none that can do this; the error says
 *         the way out), TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status starter_prepare(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct starter_command *command);

/**
 * Finds the starter alone.
 * @param program  the MPI that the program is linked to; STARTER_AUTO: not known
 * @return as detect_starter()
 */
TUTTI_MUST_USE tutti_status starter_find(const struct options *options,
        const struct placement *placement, char *const *environment,
        enum starter_kind program, struct detect_choice *choice);

#endif
