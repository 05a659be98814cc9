/*
 * Looks at this machine, for tuttirun --check-host.
 */
#ifndef TUTTI_LAUNCHER_CHECK_GATHER_H
#define TUTTI_LAUNCHER_CHECK_GATHER_H

#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/check/facts.h"

/** GPUs found under a root folder ("" or a test's): by PCI vendor and class in sysfs. */
struct gather_gpus {
    uint64_t usable; /* with a device file */
    uint64_t unusable; /* without            */
};

/**
 * Fills everything but the port and the nonce. What cannot be read is left as nothing.
 * @param starter  path of the program that starts ranks, whose version is asked; "": none
 */
void gather_facts(struct facts *facts, const char *starter, char *const *environment);

void gather_gpus_count(struct gather_gpus *gpus, const char *root);
/** FNV-1a of a file as 16 hexadecimal digits. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status gather_hash(const char *path, char text[FACTS_TEXT_MAX]);
/** The path of our own program. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status gather_self(char *path, size_t capacity);
/**
 * "Open MPI 4.1.4" and the like from what "ENGINE --version" prints; its first line when it
 * is of no known family. Pure.
 */
void gather_starter_name(const char *output, char text[FACTS_TEXT_MAX]);

/** A sibling's part in the trial of process_vm_readv(): see gather_cma.c. */
int gather_cma_page(void);
int gather_cma_read(const char *pid, const char *address);
/** errno of process_vm_readv() between two siblings; 0: allowed. */
uint64_t gather_cma(const char *self, char *const *environment);

#endif
