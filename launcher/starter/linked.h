/*
 * Which MPI a program is linked to. Started by the mpirun of another one, N ranks would
 * each be "rank 0 of 1".
 */
#ifndef TUTTI_LAUNCHER_STARTER_LINKED_H
#define TUTTI_LAUNCHER_STARTER_LINKED_H

#include <tutti/tutti.h>

#include "launcher/options.h"

enum {
    LINKED_NAME_MAX = 64 /* bytes of a library's name with its zero */
};

struct linked {
    enum starter_kind
            kind; /* STARTER_OPENMPI, STARTER_MPICH (Intel MPI has its names), or
                              STARTER_AUTO: none is seen, as in a script */
    char library[LINKED_NAME_MAX]; /* "libmpi.so.40" */
};

/** Whose a library's name is; STARTER_AUTO: not MPI's, or not to be told. Pure. */
enum starter_kind linked_kind_of(const char *library);

/**
 * Finds out what a program and its libraries need, for the loader of this machine. What
 * that does not take (a script, a program linked statically, none at all) needs nothing.
 * @param path  the file of the program, with a '/'
 */
void linked_read(const char *path, char *const *environment, struct linked *linked);

#endif
