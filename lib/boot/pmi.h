/*
 * The ranks that srun starts: with --mpi=pmi2 through libpmi2.so.0, with --mpi=pmix through
 * libpmix.so.2, which are loaded when they are needed. Each is begun once in a process and
 * ends with it.
 */
#ifndef TUTTI_BOOT_PMI_H
#define TUTTI_BOOT_PMI_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "boot/boot.h"

/**
 * @return TUTTI_OK; TUTTI_AGAIN: nothing of it is in the environment; TUTTI_ERR_SYSTEM: its
 *         library is missing, or failed; TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status boot_pmi2_open(struct boot *boot);
bool boot_pmi2_is_here(void);
/** As boot_pmi2_open(). TUTTI_AGAIN also where the library was built without PMIx's header. */
TUTTI_MUST_USE tutti_status boot_pmix_open(struct boot *boot);
bool boot_pmix_is_here(void);

/** Fills in the pointer `function` to a function of a library. False: it lacks that. */
static inline bool pmi_find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof found);
    return found != NULL;
}

#endif
