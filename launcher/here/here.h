/*
 * Each host starts its own ranks (--engine here): the same command line is started on every host of
 * a job. All of them know the hosts and their slots, and so which ranks are theirs.
 *
 *     first host                                       other hosts
 *     tuttirun                                         tuttirun: waits until the first one listens,
 *        |                                                |     and becomes
 *     --start                                          --start
 *        |                                                |
 *     supervisors                                      supervisors
 *        +-------> link to tuttirun <---------------------+
 *
 * Nothing else goes from host to host: nothing executes what another host sends. The token with
 * which supervisors and tuttirun prove who they are is made of the user's secret (secret.c) and the
 * key of the place, which keeps jobs apart, and is no secret to those who may list the account's
 * jobs. RELEASE tells supervisors the status of the job and why it failed.
 */
#ifndef TUTTI_LAUNCHER_HERE_HERE_H
#define TUTTI_LAUNCHER_HERE_HERE_H

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/options.h"
#include "launcher/session/link.h"

/** Set for the supervisors of other hosts than the first: one of them prints why the job failed. */
#define HERE_VARIABLE "TUTTI_INTERNAL_HERE"

/**
 * Where tuttirun is started on each host: finds which of them this is, if no platform says, names
 * those that it does not name, and sets the engine and the port.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (it is none of them; another --engine)
 */
TUTTI_MUST_USE tutti_status here_place(
        struct options *options, struct placement *placement);
/** Sets the ranks of this host, of `ranks` that fill the slots in order. @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status here_share(struct placement *placement, int ranks);
/** The token of the job's supervisors: nobody makes it who does not know the secret. */
void here_token(const struct join_place *place, char token[LINK_TOKEN_BYTES + 1]);
/**
 * Waits on another host until the first one listens.
 * @param[out] join  for LINK_VARIABLE
 * @return TUTTI_OK, TUTTI_ERR_TIMEOUT
 */
TUTTI_MUST_USE tutti_status here_wait(
        const struct join_place *place, int timeout_s, char join[LINK_JOIN_MAX]);

/** The variable that may hold the secret; nothing that is started gets it. */
#define JOIN_SECRET_VARIABLE "TUTTI_JOIN_SECRET"

/**
 * Reads it from the file of --join-secret-file, else from the variable. Without one, hosts
 * join only with --join-trusted-network.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is none, others may read it, or it is too
 *         short; the error says the way out, and never the secret)
 */
TUTTI_MUST_USE tutti_status join_secret_read(const struct options *options,
        char *const *environment, struct join_place *place);

#endif
