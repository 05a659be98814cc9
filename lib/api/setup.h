/*
 * What the ways to initialise share: configuration, agreement at start-up, limits.
 */
#ifndef TUTTI_API_SETUP_H
#define TUTTI_API_SETUP_H

#include <tutti/tutti.h>

#include "base/wire.h"
#include "run/start.h"

/**
 * Fills a spec, zeroed otherwise, from a configuration (NULL: the environment): values, log,
 * and limits from this machine's caches. Chooses the process's kernels.
 * `rank` is -1 where it is not known yet.
 * @return TUTTI_OK, TUTTI_ERR_CONFIG, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM
 */
tutti_status setup_begin(
        struct context_spec *spec, const tutti_config *config, int rank);
/** Logs the warnings about the configuration, on rank 0. */
void setup_warn(const struct context_spec *spec);

/**
 * What all ranks of the job make of what each says, on all ranks or on none. Collective, also
 * for a rank that has failed.
 * @param mine    this rank's status, with the last error set where it is one
 * @param[out] result  owned
 * @return as transport_meet(); or why another rank failed, which the text names
 */
tutti_status setup_meet(struct context_spec *spec, tutti_status mine,
        const struct transport_merge *merge, struct wire_writer *result);
/**
 * Collects the blocks of the ranks of a group, on all ranks of the job or on none.
 * Collective in the job, each rank in one group, also for a rank that has failed.
 * @param group   NULL: all ranks
 * @param mine    this rank's status, with the last error set where it is one
 * @param block   this rank's; emptied. Without memory for it this rank has failed.
 * @param[out] result  mail, owned: as transport_collect()
 * @return as setup_meet()
 */
tutti_status setup_collect(struct context_spec *spec,
        const struct transport_group *group, tutti_status mine,
        struct wire_writer *block, struct wire_writer *result);

/**
 * Exchanges facts over spec->transport: fills spec->nodes and caches,
 * makes the limits equal on all ranks, and compares library versions and the values that
 * must be equal. spec->expects_gpus is true afterwards where it was on any rank. Collective.
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (names the parameter, two ranks and their values),
 *         TUTTI_ERR_NO_MEMORY, TUTTI_ERR_PROTOCOL, errors of the transport
 */
tutti_status setup_agree(struct context_spec *spec);

#endif
