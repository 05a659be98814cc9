/*
 * --config-file: flags and parameters in YAML, with the groups of horovodrun's files.
 */
#ifndef TUTTI_LAUNCHER_CONFIG_FILE_H
#define TUTTI_LAUNCHER_CONFIG_FILE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/options.h"

/**
 * Reads the file and sets what it says. Errors name file, line and key.
 * @param has_hosts  the command line says which hosts there are; those of the file are
 *                   passed over
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no YAML, an unknown key, a value of a wrong kind),
 *         TUTTI_ERR_CONFIG (a parameter's value), TUTTI_ERR_SYSTEM (the file cannot be
 *         read), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status config_file_apply(
        struct options *options, const char *path, bool has_hosts);

#endif
