/*
 * Where the ranks of a command line run.
 */
#ifndef TUTTI_LAUNCHER_PLACE_H
#define TUTTI_LAUNCHER_PLACE_H

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"
#include "launcher/options.h"

/**
 * Finds the hosts and, unless -np was given, the number of ranks. With --verbose and
 * --dry-run it says on stderr which source they are from.
 * @param[in,out] options    its hosts and ranks become those found; the shard of an array
 *                           job becomes a variable of the ranks
 * @param[out]    placement  released with placement_fini() in every case; with `waits`,
 *                           there are no ranks
 * @return as source_resolve() and options_settle_ranks()
 */
TUTTI_MUST_USE tutti_status place_ranks(
        struct options *options, char *const *environment, struct placement *placement);

#endif
