/*
 * What Open MPI 4 and Open MPI 5 have in common.
 */
#ifndef TUTTI_LAUNCHER_STARTER_OPENMPI_H
#define TUTTI_LAUNCHER_STARTER_OPENMPI_H

#include "launcher/starter/starter.h"

/** Names that differ between the two. */
struct openmpi_words {
    const char *parameter; /* the flag that sets a parameter of mpirun itself     */
    const char *agent; /* what starts a daemon on another host                */
    const char *agent_args; /* flags for it                                        */
    const char *no_tree; /* the daemons do not start each other                 */
    const char *network; /* ranges of addresses for what the daemons say         */
};

/** Appends all that follows the path of mpirun. */
void openmpi_build(const struct options *options, const struct starter_facts *facts,
        const struct openmpi_words *named, struct arguments *words);

#endif
