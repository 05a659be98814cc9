/*
 * Plug-ins: what of the library needs other libraries, each as one table.
 */
#ifndef TUTTI_API_PLUGIN_H
#define TUTTI_API_PLUGIN_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "transport/job.h"

/** The plug-in of an MPI. */
struct mpi_plugin {
    const char *version; /* TUTTI_VERSION_STRING */
    const char *name; /* "openmpi", "mpich" */
    /* job_source.join, user: NULL, for the world of the launcher. */
    tutti_status (*join)(void *user, bool refuses, struct job **job);
    tutti_status (*init_ranks)(
            tutti **t, const int *ranks, int n, const tutti_config *config);
    tutti_status (*hold)(void); /* tutti_mpi_hold() */
    tutti_status (*release)(void); /* tutti_mpi_release() */
};

extern const struct mpi_plugin mpi_plugin;

#endif
