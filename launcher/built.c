/*
 * Compiled for each MPI; the rest of the launcher is the same with all.
 */
#include "launcher/built.h"

const char built_mpi[] = TUTTI_MPI_NAME;
const char built_library_dir[] = TUTTI_LIBRARY_DIR;
const char built_mpirun[] = TUTTI_MPIEXEC;
