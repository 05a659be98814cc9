/*
 * Which rank this process is, by the variables of the MPI launcher that started it. Pure.
 */
#ifndef TUTTI_LAUNCHER_EXEC_RANK_H
#define TUTTI_LAUNCHER_EXEC_RANK_H

#include <stdbool.h>

struct rank_place {
    int rank, size; /* in the job; -1: unknown                                     */
    int local_rank, local_size; /* on its host, both known or both -1                */
    bool is_own; /* started without an MPI, by tuttirun --start (start.h)                */
};

/** The variable by which tuttirun --start tells: "RANK SIZE LOCAL_RANK LOCAL_SIZE". Programs do not get it. */
#define RANK_VARIABLE "TUTTI_INTERNAL_RANK"

struct arguments;

/** Looks at RANK_VARIABLE, and the variables of Open MPI, MPICH's Hydra, PMIx and Slurm. */
struct rank_place rank_read(char *const *environment);

/**
 * What scripts look at before init(), as far as it is known: RANK, WORLD_SIZE, LOCAL_RANK and
 * LOCAL_WORLD_SIZE of a rank that no MPI started, and HOROVOD_RANK, _SIZE, _LOCAL_RANK and
 * _LOCAL_SIZE under --horovod, which has put HOROVOD_CONTROLLER there.
 */
void rank_export(const struct rank_place *rank, struct arguments *environment);

#endif
