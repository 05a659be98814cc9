/*
 * From options and hosts to the engine's command.
 */
#ifndef TUTTI_LAUNCHER_ENGINE_PREPARE_H
#define TUTTI_LAUNCHER_ENGINE_PREPARE_H

#include <tutti/tutti.h>

#include "launcher/engine/detect.h"
#include "launcher/engine/engine.h"
#include "launcher/hosts/source.h"
#include "launcher/options.h"

/**
 * Finds the engine and the network, and builds the command that starts the ranks.
 * @param[in,out] command  empty; released with engine_command_fini() in every case
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no engine, or none that can do this; the error says
 *         the way out), TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status engine_prepare(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct engine_command *command);

/**
 * Finds the engine alone, for a job whose program is not known.
 * @return as detect_engine()
 */
TUTTI_MUST_USE tutti_status engine_find(const struct options *options,
        const struct placement *placement, char *const *environment,
        struct detect_choice *choice);

#endif
