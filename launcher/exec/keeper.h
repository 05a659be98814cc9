/*
 * A keeper: a process that holds the memory in which the ranks of a host keep what they
 * commit, over all generations of an elastic job. The first supervisor of a host starts it. It
 * ends with its connection to tuttirun.
 */
#ifndef TUTTI_LAUNCHER_EXEC_KEEPER_H
#define TUTTI_LAUNCHER_EXEC_KEEPER_H

#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/session/link_address.h"
#include "launcher/session/meet.h"

/** Its name as a process, by which the end of a generation spares it. */
#define KEEPER_NAME "tutti-keeper"

/** How a keeper meets tuttirun: the secret is the token of the job. */
extern const struct meet_protocol keeper_protocol;

struct keeper_plan {
    const char *job; /* identity of the job: no other has the same   */
    const struct link_address *address; /* of tuttirun                */
    uint16_t port; /* where that waits for keepers                  */
    int64_t silent_ns; /* of tuttirun, until it is taken for lost   */
};

/**
 * Gets the memory of this host, from its keeper, which is started where there is none.
 * @param[out] fd  a memfd of ELASTIC_CONTROL_BYTES or more, closed by exec
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (there is no keeper, and none could be started)
 */
TUTTI_MUST_USE tutti_status keeper_get(const struct keeper_plan *plan, int *fd);

#endif
