/*
 * Which starter starts the job, and how that is known.
 */
#ifndef TUTTI_LAUNCHER_STARTER_DETECT_H
#define TUTTI_LAUNCHER_STARTER_DETECT_H

#include <limits.h>
#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/starter/starter.h"

enum {
    DETECT_HOW_MAX = 256 /* bytes of a reason with its zero */
};

/** What the choice depends on. */
struct detect_facts {
    const struct options *options; /* --engine and --mpirun                       */
    char *const *environment; /* PATH, and SLURM_STEP_ID                     */
    enum starter_kind built; /* the MPI tutti was built with; STARTER_AUTO: none */
    const char *built_mpirun; /* its mpirun, as the build found it           */
    enum starter_kind
            program; /* the MPI the program is linked to; STARTER_AUTO: unknown */
    bool is_slurm; /* the job runs in the Slurm allocation we are in */
};

struct detect_choice {
    const struct starter *starter;
    enum starter_kind ranks; /* whose MPI the ranks use; STARTER_AUTO: unknown */
    char path[PATH_MAX]; /* of mpirun or srun                             */
    char how[DETECT_HOW_MAX]; /* "--mpirun", "tutti was built with it", ...    */
};

/** The starter whose name a file has, seen through links; NULL: the name tells nothing. */
const struct starter *detect_by_name(const char *path);
/** The starter that prints such a --version; NULL: none that is known. Pure. */
const struct starter *detect_by_version(const char *text);
/**
 * True when a starter is of a kind, or of any for STARTER_AUTO. Hydra is one program under two
 * names, and starts the ranks of MPICH and of Intel MPI.
 */
bool detect_serves(const struct starter *starter, enum starter_kind kind);
/** True when srun started this process: mpirun cannot start more in such a step. */
bool detect_step(char *const *environment);

/**
 * Chooses a starter. Runs "mpirun --version" where the name of a file tells nothing.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is none, it cannot be run, it is another's
 *         than --engine says; the error names the way out)
 */
TUTTI_MUST_USE tutti_status detect_starter(
        const struct detect_facts *facts, struct detect_choice *choice);

#endif
