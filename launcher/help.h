/*
 * tuttirun --help.
 */
#ifndef TUTTI_LAUNCHER_HELP_H
#define TUTTI_LAUNCHER_HELP_H

#include <stdio.h>

#include <tutti/tutti.h>

/**
 * Writes the help, made from the tables.
 * @param topic  "": all flags of tuttirun; "parameters": those of the library; "all";
 *               or the name of a flag, with or without dashes
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is no such topic; nothing is written)
 */
TUTTI_MUST_USE tutti_status help_print(FILE *file, const char *topic);

/** Writes the version, and what tutti was built with. */
void help_print_build(FILE *file);

#endif
