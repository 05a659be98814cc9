/*
 * The plug-in of another version of the library.
 */
#include "api/plugin.h"

const struct mpi_plugin mpi_plugin = { .version = "0.0.0", .name = "another" };
