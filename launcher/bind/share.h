/*
 * Which rank of its host a process is, and tuttirun --exec: what mpirun starts for every
 * rank. It binds itself to the rank's share of the host and becomes the program.
 */
#ifndef TUTTI_LAUNCHER_BIND_SHARE_H
#define TUTTI_LAUNCHER_BIND_SHARE_H

#include <stdbool.h>

/** Which rank of its host a process is. */
struct share {
    int index; /* rank among the ranks of this host */
    int count; /* ranks on this host                */
};

/**
 * The share of this process, from the variables of the launcher that started it (Open
 * MPI, MPICH's Hydra, Slurm); false when there are none. Pure.
 */
bool share_read(struct share *share, char *const *environment);

/**
 * Binds and runs "[--verbose] [--] program args".
 * @param argv  what follows --exec, NULL-terminated
 * @return only when the program cannot be run: 126, or 127 when it was not found
 */
int share_exec(char *const *argv, char *const *environment);

#endif
