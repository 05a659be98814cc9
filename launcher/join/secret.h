/*
 * The secret that hosts prove to each other before one runs what the other says.
 */
#ifndef TUTTI_LAUNCHER_JOIN_SECRET_H
#define TUTTI_LAUNCHER_JOIN_SECRET_H

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/options.h"

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
