#include "launcher/built.h"

const char built_mpi[] = TUTTI_MPI_NAME;
const char built_preload_dir[] = TUTTI_PRELOAD_DIR;
const char built_mpirun[] = TUTTI_MPIEXEC;
