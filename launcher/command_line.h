/*
 * The command line of tuttirun. Names are matched whole: an abbreviation that is unique
 * today would change its meaning when the table grows.
 */
#ifndef TUTTI_LAUNCHER_COMMAND_LINE_H
#define TUTTI_LAUNCHER_COMMAND_LINE_H

#include <tutti/tutti.h>

#include "launcher/options.h"

/**
 * Reads a command line; stops at the first word that is no flag: the program. Values of
 * a configuration file come first, so that those of the command line win.
 * @param argv          NULL-terminated, borrowed as long as options is used
 * @param[out] options  released with options_fini() in every case
 * @return as options_set(), and TUTTI_ERR_SYSTEM (a configuration file)
 */
TUTTI_MUST_USE tutti_status command_line_parse(
        struct options *options, char *const *argv);

#endif
