/*
 * Which rank this process is, by the variables of the MPI launcher that started it. Pure.
 */
#ifndef TUTTI_LAUNCHER_EXEC_RANK_H
#define TUTTI_LAUNCHER_EXEC_RANK_H

struct rank_place {
    int rank, size; /* in the job; -1: unknown                                     */
    int local_rank, local_size; /* on its host, both known or both -1                */
};

struct arguments;

/** Looks at the variables of Open MPI, MPICH's Hydra, PMIx and Slurm. */
struct rank_place rank_read(char *const *environment);

/**
 * Under --horovod, which has put HOROVOD_CONTROLLER there: adds HOROVOD_RANK, _SIZE, _LOCAL_RANK and
 * _LOCAL_SIZE, which scripts look at before init(), as far as they are known.
 */
void rank_export_horovod(const struct rank_place *rank, struct arguments *environment);

#endif
