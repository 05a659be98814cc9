/*
 * The command line of mpirun. Pure: all facts come in, an argument list comes out.
 */
#ifndef TUTTI_LAUNCHER_ENGINE_COMMAND_H
#define TUTTI_LAUNCHER_ENGINE_COMMAND_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/options.h"

/** Facts that the command depends on beside the options. */
struct command_facts {
    enum mpi_family family; /* of mpirun; not FAMILY_AUTO                          */
    const char *mpirun; /* its path                                            */
    const char *self; /* path of tuttirun, for --exec                        */
    bool is_root; /* run by root: Open MPI wants to be told that it may  */
    char *const *environment; /* ours: TUTTI_* and HOROVOD_* are handed on           */
};

/**
 * Builds the command.
 * @param[in,out] command  an empty list
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status command_build(const struct options *options,
        const struct command_facts *facts, struct arguments *command);

/**
 * The family that the name of an mpirun tells ("mpirun.mpich", "mpiexec.hydra",
 * "orterun"), or FAMILY_AUTO when it tells nothing.
 */
enum mpi_family command_family_of(const char *mpirun);

#endif
