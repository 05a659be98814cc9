/*
 * The start of jobs without an MPI.
 */
#ifndef TUTTI_API_INIT_BOOT_H
#define TUTTI_API_INIT_BOOT_H

#include <tutti/tutti.h>

#include "boot/boot.h"

/**
 * Meets the other ranks where something has started them that says how.
 * @param[out] boot  closed by the caller
 * @return TUTTI_OK; TUTTI_AGAIN: nothing has, this process is alone; errors of the boots
 */
TUTTI_MUST_USE tutti_status init_boot_find(struct boot *boot);
/** tutti_init() where there is no MPI. @return TUTTI_AGAIN as init_boot_find() */
TUTTI_MUST_USE tutti_status init_boot(tutti **t, const tutti_config *config);

#endif
