/*
 * Which MPI a program is linked to. Started by the mpirun of another one, N ranks would
 * each be "rank 0 of 1".
 */
#ifndef TUTTI_LAUNCHER_ENGINE_LINKED_H
#define TUTTI_LAUNCHER_ENGINE_LINKED_H

#include <tutti/tutti.h>

#include "launcher/options.h"

enum {
    LINKED_NAME_MAX = 64 /* bytes of a library's name with its zero */
};

struct linked {
    enum engine_kind kind; /* ENGINE_OPENMPI, ENGINE_MPICH (Intel MPI has its names), or
                              ENGINE_AUTO: none is seen, as in a script */
    char library[LINKED_NAME_MAX]; /* "libmpi.so.40" */
};

/** Whose a library's name is; ENGINE_AUTO: not MPI's, or not to be told. Pure. */
enum engine_kind linked_kind_of(const char *library);

/**
 * Reads the program's file and the libraries that it needs, as far as they are found where
 * the loader looks for them. What cannot be read needs nothing.
 * @param path  the file of the program
 */
void linked_read(const char *path, char *const *environment, struct linked *linked);

#endif
