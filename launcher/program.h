/*
 * Finding the file of a program, as execvp() would.
 */
#ifndef TUTTI_LAUNCHER_PROGRAM_H
#define TUTTI_LAUNCHER_PROGRAM_H

#include <stddef.h>

#include <tutti/tutti.h>

/**
 * The file that would be run for a program name.
 * @param path       the value of PATH; NULL: only names with a '/' are found
 * @param[out] file  room for `capacity` bytes
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is none, it is a directory, it is not
 *         executable, its path is too long; the error says which)
 */
TUTTI_MUST_USE tutti_status program_find(
        const char *name, const char *path, char *file, size_t capacity);

/**
 * Says why exec() has failed, by errno: that the interpreter is missing, where the file is there.
 * @return TUTTI_ERR_SYSTEM
 */
tutti_status program_refused(const char *name);

/** The file of the running program. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status program_self(char *file, size_t capacity);
/** The same of another one of tutti, which is installed in the same folder. @return also TUTTI_ERR_INVALID */
TUTTI_MUST_USE tutti_status program_beside(
        const char *name, char *file, size_t capacity);

#endif
