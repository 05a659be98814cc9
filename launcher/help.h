/*
 * tuttirun --help.
 */
#ifndef TUTTI_LAUNCHER_HELP_H
#define TUTTI_LAUNCHER_HELP_H

#include <stdio.h>

/** Writes all flags with their meaning, made from the two tables. */
void help_print(FILE *file);

#endif
