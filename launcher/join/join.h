/*
 * Hosts without ssh. Where the same command is started on every host of a job, tuttirun on
 * the first listens, those on the others join it, and what an MPI launcher would have started with
 * ssh is started through these connections:
 *
 *     first host                                         other hosts
 *     tuttirun --(forks)--> hub <------ session -------- tuttirun (join_serve)
 *        |                   ^                               |
 *     mpirun --> agent ------+  RUN, INPUT, CANCEL -->       +-- sh -c COMMAND
 *                Unix socket |  <-- OUTPUT, ENDED
 *                            +  BYE --> when tuttirun has ended
 *
 * The agent is a script in the hub's folder that runs `tuttirun --join-agent`; MPI launchers are
 * told to use it in place of ssh.
 *
 * HELLO carries the key of the place, which keeps jobs apart, and is no secret to those who
 * may list the account's jobs. The secret is the user's (secret.c): nothing is run before
 * both sides have proven that they know it.
 */
#ifndef TUTTI_LAUNCHER_JOIN_JOIN_H
#define TUTTI_LAUNCHER_JOIN_JOIN_H

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/options.h"

/**
 * Waits on the first host until all others have joined, and starts the hub, which ends when
 * this process does. Adds the hosts in the order of their numbers, where the source did not
 * name them, and sets the placement's agent.
 * @param timeout_s       how long
 * @param slots_per_host  of each host that is added; 0: as many as it has GPUs, else cores
 * @return TUTTI_OK, TUTTI_ERR_TIMEOUT (says who is missing), TUTTI_ERR_INVALID,
 *         TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status join_gather(
        struct placement *placement, int timeout_s, int slots_per_host);

/**
 * Joins the first host, and runs what it sends until it says that the job is over. Whatever
 * was started is ended then.
 * @return TUTTI_OK, TUTTI_ERR_TIMEOUT (no first host), TUTTI_ERR_INVALID (it refused us),
 *         TUTTI_ERR_SYSTEM (the connection was lost)
 */
TUTTI_MUST_USE tutti_status join_serve(
        const struct placement *placement, int timeout_s);

/**
 * tuttirun --join-agent SOCKET [FLAGS] HOST COMMAND...: runs a command on a host that has
 * joined, as ssh would.
 * @param argv  from SOCKET on, NULL-terminated
 * @return the exit status: the command's, or 255
 */
int join_agent(char *const *argv);

/** The variable that may hold it; the MPI launcher and ranks do not get it. */
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
