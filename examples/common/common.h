/*
 * What the examples have in common.
 */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

/**
 * Ends the program, and the job, if a call has failed. All ranks have the same message for a
 * mismatch, so rank 0 says it.
 * @param job  NULL: there is none yet
 */
void check(tutti *job, tutti_status status);

/** Monotonic time in seconds. */
double now(void);

/**
 * Finds a file beside the program, or in ../share/tutti from there.
 * @return false when it is in neither
 */
bool find_beside_program(const char *name, char *path, size_t path_bytes);

#endif
