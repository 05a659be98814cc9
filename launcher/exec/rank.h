/*
 * Which rank this process is, by the variables of the starter that started it. Pure.
 */
#ifndef TUTTI_LAUNCHER_EXEC_RANK_H
#define TUTTI_LAUNCHER_EXEC_RANK_H

struct rank {
    int rank, size; /* in the job; -1: unknown                                     */
    int local_rank, local_size; /* on its host, both known or both -1                */
};

/** Looks at the variables of Open MPI, MPICH's Hydra, PMIx and Slurm. */
struct rank rank_read(char *const *environment);

#endif
