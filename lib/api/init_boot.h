/*
 * The start of jobs without an MPI.
 */
#ifndef TUTTI_API_INIT_BOOT_H
#define TUTTI_API_INIT_BOOT_H

#include <tutti/tutti.h>

#include "base/shared.h"

/** tutti_init() where there is no MPI. @return TUTTI_AGAIN: this process is alone */
TUTTI_MUST_USE tutti_status init_boot(tutti **t, const tutti_config *config);
/** What has started this process, for people; NULL: nothing that says so. */
const char *init_boot_seen(void) TUTTI_SHARED(init_boot_seen);

#endif
