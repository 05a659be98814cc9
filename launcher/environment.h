/*
 * Variables of a process environment that is handed around as a value, so that what
 * depends on it can be tested.
 */
#ifndef TUTTI_LAUNCHER_ENVIRONMENT_H
#define TUTTI_LAUNCHER_ENVIRONMENT_H

#include <stdbool.h>

/** The value of a variable inside a NULL-terminated array of NAME=VALUE, or NULL. */
const char *environment_get(char *const *environment, const char *name);
/** A variable as a number; false when it is not there, no number, or below min. */
bool environment_get_int(
        char *const *environment, const char *name, int min, int *value);

#endif
