/*
 * Which MPI launcher starts the job, and how that is known.
 */
#ifndef TUTTI_LAUNCHER_MPI_LAUNCHER_DETECT_H
#define TUTTI_LAUNCHER_MPI_LAUNCHER_DETECT_H

#include <limits.h>
#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/mpi_launcher/mpi_launcher.h"

enum {
    DETECT_HOW_MAX = 256 /* bytes of a reason with its zero */
};

/** What the choice depends on. */
struct detect_facts {
    const struct options *options; /* --engine and --mpirun                       */
    char *const *environment; /* PATH, and SLURM_STEP_ID                     */
    enum mpi_kind built; /* the MPI tutti was built with; MPI_KIND_AUTO: none */
    const char *built_mpirun; /* its mpirun, as the build found it           */
    enum mpi_kind
            program; /* the MPI the program is linked to; MPI_KIND_AUTO: unknown */
    bool needs_no_mpi; /* the program is tutti's, linked to none, and all ranks are here */
    bool is_slurm; /* the job runs in the Slurm allocation we are in */
};

struct detect_choice {
    const struct mpi_launcher *launcher;
    enum mpi_kind ranks; /* whose MPI the ranks use; MPI_KIND_AUTO: unknown */
    char path[PATH_MAX]; /* of mpirun or srun                             */
    char how[DETECT_HOW_MAX]; /* "--mpirun", "tutti was built with it", ...    */
};

/** The MPI launcher whose name a file has, seen through links; NULL: the name tells nothing. */
const struct mpi_launcher *detect_by_name(const char *path);
/** The MPI launcher that prints such a --version; NULL: none that is known. Pure. */
const struct mpi_launcher *detect_by_version(const char *text);
/**
 * True when an MPI launcher is of a kind, or of any for MPI_KIND_AUTO. Hydra is one program under two
 * names, and starts the ranks of MPICH and of Intel MPI.
 */
bool detect_serves(const struct mpi_launcher *launcher, enum mpi_kind kind);
/** True when srun started this process: mpirun cannot start more in such a step. */
bool detect_step(char *const *environment);

/**
 * Chooses an MPI launcher. Runs "mpirun --version" where the name of a file tells nothing.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is none, it cannot be run, it is another's
 *         than --engine says; the error names the way out)
 */
TUTTI_MUST_USE tutti_status detect_launcher(
        const struct detect_facts *facts, struct detect_choice *choice);

#endif
