/*
 * Fills a struct of function pointers from a shared object.
 */
#ifndef TUTTI_OPS_GPU_SYMBOLS_H
#define TUTTI_OPS_GPU_SYMBOLS_H

#include <stddef.h>

/** A function of the shared object and its place in the struct. */
struct symbol {
    const char *name; /* as exported                                     */
    size_t offset; /* of the pointer in the struct                    */
    int since; /* SYMBOL_REQUIRED, or the version that brought it */
};

/** symbol.since of functions that must be there. */
#define SYMBOL_REQUIRED (-1)

/**
 * Opens a shared object for the rest of the process. Any thread.
 * @return a handle, or NULL with `*reason` set: valid until the thread's next call of dl...
 */
void *symbols_open(const char *library, const char **reason);

/**
 * Looks up all functions: those newer than `version` become NULL. Any thread.
 * @param[out] table  the struct that the offsets are of
 * @return the name of the first required function that is missing, or NULL
 */
const char *symbols_fill(void *handle, const struct symbol *symbols, size_t count,
        int version, void *table);

#endif
