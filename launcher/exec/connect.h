/*
 * A connection from a supervisor to tuttirun.
 */
#ifndef TUTTI_LAUNCHER_EXEC_CONNECT_H
#define TUTTI_LAUNCHER_EXEC_CONNECT_H

#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/link/address.h"

/**
 * Tries every address, the next one 100 ms after the one before or as soon as that one
 * has failed; the first that answers counts.
 * @param deadline  monotonic, ns
 * @param[out] fd   a TCP socket that does not block
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (none answers; the error names the addresses)
 */
TUTTI_MUST_USE tutti_status connect_any(
        const struct link_address *address, int64_t deadline, int *fd);

#endif
