/*
 * Each host starts its own ranks (--engine here): the same command line is started on every host of
 * a job, tuttirun on the first one runs the job, and those on the others join it.
 *
 *     first host                                       other hosts
 *     tuttirun  <------------ session --------------   tuttirun
 *        |          HELLO -->   <-- START, END            |
 *     --start                                          --start
 *        |                                                |
 *     supervisors                                      supervisors
 *        +-------> link to tuttirun <---------------------+
 *
 * Nothing executes what another host sends: what is run is in the command line of each host. Both
 * sides prove that they know the user's secret (secret.c), of which the supervisors' token is
 * made, too. HELLO carries the key of the place, which keeps jobs apart, and is no secret to
 * those who may list the account's jobs.
 */
#ifndef TUTTI_LAUNCHER_HERE_HERE_H
#define TUTTI_LAUNCHER_HERE_HERE_H

#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/options.h"
#include "launcher/session/link.h"

/**
 * Where tuttirun is started on each host: finds which of them this is, if no platform says, and sets
 * the engine and the port.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (it is none of them; another --engine)
 */
TUTTI_MUST_USE tutti_status here_place(
        struct options *options, struct placement *placement);

/** The hosts that have joined, on the first one. */
struct here;

/**
 * Waits on the first host until all others have joined. Adds the hosts in the order of their
 * numbers, where the source did not name them, and sets placement->here.
 * @return TUTTI_OK, TUTTI_ERR_TIMEOUT (says who is missing), TUTTI_ERR_INVALID,
 *         TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status here_gather(
        const struct options *options, struct placement *placement);
/** The first of the ranks on this host, when they fill the slots of these hosts, and how many. */
struct share here_share(
        const struct here *here, const struct host_list *hosts, int ranks);
/**
 * Has the others start their ranks.
 * @param port   where we wait for supervisors
 * @param nonce  of which they make their token
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (a host is lost), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status here_start(struct here *here, const struct host_list *hosts,
        int ranks, int port, const uint8_t nonce[PROOF_NONCE_BYTES]);
/** The token of that nonce. */
void here_token(const struct here *here, const uint8_t nonce[PROOF_NONCE_BYTES],
        char token[LINK_TOKEN_BYTES + 1]);
/** Tells the others how the job has ended, once. @param text  why it failed; "": it did not */
void here_finish(struct here *here, int exit_status, const char *text);
/** NULL: there are none. */
void here_free(struct here *here);

/**
 * Joins the first host, and starts the ranks of this one, until the job is over.
 * @return the exit status: that of the job
 */
int here_serve(const struct options *options, const struct placement *placement,
        char *const *environment);

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
