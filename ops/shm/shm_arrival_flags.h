/*
 * Arrival flags (ops/arrival_flags.h) in the segments of a domain: words that ranks of a process or of
 * a node show each other.
 */
#ifndef TUTTI_OPS_SHM_SHM_ARRIVAL_FLAGS_H
#define TUTTI_OPS_SHM_SHM_ARRIVAL_FLAGS_H

#include "ops/arrival_flags.h"
#include "ops/shm/shm.h"

/** Those of a domain, which they borrow and do not outlive; of NULL: none. */
struct arrival_flags shm_arrival_flags(struct shm_domain *domain);

#endif
