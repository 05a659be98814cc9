/*
 * Plug-ins: what of the library needs other libraries, each a shared library of its own with
 * one table. They lie beside libtutti.so, and are of its version.
 */
#ifndef TUTTI_API_PLUGIN_H
#define TUTTI_API_PLUGIN_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "base/shared.h"
#include "transport/job.h"

/** The plug-in of an MPI. */
struct mpi_plugin {
    const char *version; /* TUTTI_VERSION_STRING; stays first */
    const char *name; /* "openmpi", "mpich" */
    /* job_source.join, user: NULL, for the world of the launcher. */
    tutti_status (*join)(void *user, bool refuses, struct job **job);
    tutti_status (*init_ranks)(
            tutti **t, const int *ranks, int n, const tutti_config *config);
    tutti_status (*hold)(void); /* tutti_mpi_hold() */
    tutti_status (*release)(void); /* tutti_mpi_release() */
};

/** The table of a plug-in. Weak: NULL where the program links none. */
extern const struct mpi_plugin mpi_plugin TUTTI_SHARED(mpi_plugin)
        __attribute__((weak));

enum {
    PLUGIN_PATH_MAX = 4096, /* bytes of a path with its zero */
    PLUGIN_WHY_MAX = 256 /* the same of a reason */
};

/** Which MPI a job of this process uses. */
struct mpi_choice {
    const char *name; /* of a plug-in that is there: "openmpi", "mpich"; NULL: none */
    char why[PLUGIN_WHY_MAX]; /* also why there is none */
};

/**
 * Chooses the plug-in that the program is linked to, else that of the MPI in this process, else
 * that of the launcher's, else, where `is_wanted`, the first that is there. Any thread.
 */
void plugin_choose_mpi(bool is_wanted, struct mpi_choice *choice)
        TUTTI_SHARED(plugin_choose_mpi);
/** The MPIs that may have a plug-in; NULL after the last. */
const char *plugin_mpi_name(int i) TUTTI_SHARED(plugin_mpi_name);
/** Where the plug-in of that name lies; false: where it would, but it is not there. */
bool plugin_path(const char *name, char path[PLUGIN_PATH_MAX])
        TUTTI_SHARED(plugin_path);

/**
 * Chooses and loads. It stays loaded.
 * @param[out] plugin  NULL: none is chosen
 * @return TUTTI_OK; TUTTI_ERR_UNSUPPORTED: it cannot be loaded, or is of another version
 */
tutti_status plugin_load_mpi(bool is_wanted, const struct mpi_plugin **plugin);

#endif
