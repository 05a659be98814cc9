/*
 * Looks at this machine, for tuttirun --check-host.
 */
#ifndef TUTTI_TOOLS_CHECK_LOCAL_FACTS_H
#define TUTTI_TOOLS_CHECK_LOCAL_FACTS_H

#include <stdint.h>

#include <tutti/tutti.h>

#include "tools/check/facts.h"

/**
 * Fills everything but the port and the nonce. What cannot be read is left as nothing.
 * @param MPI launcher  path of the program that starts ranks, whose version is asked; "": none
 */
void gather_facts(struct facts *facts, const char *launcher, char *const *environment);

/** FNV-1a of a file as 16 hexadecimal digits. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status gather_hash(const char *path, char text[FACTS_TEXT_MAX]);
/**
 * "Open MPI 4.1.4" and the like from what "mpirun --version" prints; its first line when it
 * is of no known family. Pure.
 */
void gather_launcher_name(const char *output, char text[FACTS_TEXT_MAX]);

/** errno of process_vm_readv() between two siblings; 0: allowed. */
uint64_t gather_cma(void);

#endif
