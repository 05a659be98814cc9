/*
 * --config-file: flags and parameters in YAML, with the groups of horovodrun's files.
 */
#ifndef TUTTI_LAUNCHER_CONFIG_FILE_H
#define TUTTI_LAUNCHER_CONFIG_FILE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/options.h"

/** What the command line has of flags that cannot be given twice. */
struct config_file_given {
    bool hosts; /* one of those that say which hosts there are */
};

/** True for the flags of which only one can be given: hosts, hostfile, ... */
bool config_file_is_hosts(const char *name);

/**
 * Reads the file and sets what it says. Errors name file, line and key.
 * @param given  what the file says of these is checked, but left to the command line
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no YAML, an unknown key, a value of a wrong kind),
 *         TUTTI_ERR_CONFIG (a parameter's value), TUTTI_ERR_SYSTEM (the file cannot be
 *         read), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status config_file_apply(struct options *options, const char *path,
        const struct config_file_given *given);

#endif
