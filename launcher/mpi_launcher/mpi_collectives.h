/*
 * --mpi-collectives: libtutti_mpi.so in front of the program's MPI. mpirun carries its path to
 * the hosts in a variable of its own; only the program itself is started with it.
 */
#ifndef TUTTI_LAUNCHER_MPI_LAUNCHER_MPI_COLLECTIVES_H
#define TUTTI_LAUNCHER_MPI_LAUNCHER_MPI_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/options.h"

/*
 * Which MPI a program is linked to. Started by the mpirun of another one, N ranks would
 * each be "rank 0 of 1".
 */

enum {
    LINKED_NAME_MAX = 64 /* bytes of a library's name with its zero */
};

struct linked {
    enum mpi_kind
            kind; /* MPI_KIND_OPENMPI, MPI_KIND_MPICH (Intel MPI has its names), or
                              MPI_KIND_AUTO: none is seen, as in a script */
    char library[LINKED_NAME_MAX]; /* "libmpi.so.40" */
    bool needs_no_mpi; /* it is linked to a libtutti that has its plug-in for UCX, and to no MPI */
};

/** The MPI that tutti was built with; MPI_KIND_AUTO: none. */
enum mpi_kind mpi_kind_built_with(void);
/** Whose a library's name is; MPI_KIND_AUTO: not MPI's, or not to be told. Pure. */
enum mpi_kind linked_kind_of(const char *library);

/**
 * Finds out what a program and its libraries need, for the loader of this machine. What
 * that does not take (a script, a program linked statically, none at all) needs nothing.
 * @param path  the file of the program, with a '/'
 */
void linked_read(const char *path, char *const *environment, struct linked *linked);

#define MPI_COLLECTIVES_VARIABLE "TUTTI_INTERNAL_MPI_COLLECTIVES"

/**
 * Finds the library beside this tuttirun.
 * @param self      the file of tuttirun
 * @param kind      the MPI of the ranks; MPI_KIND_AUTO: that which tutti was built with
 * @param[out] file  room for PATH_MAX bytes
 * @return TUTTI_OK, TUTTI_ERR_INVALID
 */
TUTTI_MUST_USE tutti_status mpi_collectives_find(
        const char *self, enum mpi_kind kind, char *file);

/** False: it was asked for, and is not on this host; the last error says so. */
bool mpi_collectives_are_here(char *const *environment);
/** Puts it in front of the program's libraries, if it was asked for. */
void mpi_collectives_export(struct arguments *environment);

#endif
