/*
 * The MPI that tuttirun was built with: all that depends on it in the launcher.
 */
#ifndef TUTTI_LAUNCHER_BUILT_H
#define TUTTI_LAUNCHER_BUILT_H

extern const char built_mpi[]; /* "openmpi", "mpich" or "none" */
extern const char
        built_preload_dir[]; /* libtutti_mpi.so, below the prefix: "lib/tutti" */
extern const char built_mpirun[]; /* path of its mpirun, empty without MPI */

#endif
