/*
 * Finding libtutti_mpi.so, and starting a program with it.
 */
#include "launcher/starter/mpi_collectives.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/built.h"
#include "launcher/environment.h"

#define LIBRARY "libtutti_mpi.so"
#define PRELOAD "LD_PRELOAD"

static enum starter_kind built_kind(void)
{
    return strcmp(built_mpi, "openmpi") == 0  ? STARTER_OPENMPI
            : strcmp(built_mpi, "mpich") == 0 ? STARTER_MPICH
                                              : STARTER_AUTO;
}

static const char *title_of(enum starter_kind kind)
{
    return kind == STARTER_OPENMPI ? "Open MPI" : "MPICH or Intel MPI";
}

/* A handle of one MPI means nothing to another. Of a script it is seen in MPI_Init(). */
static tutti_status check_mpi(const char *program, const struct linked *linked)
{
    const enum starter_kind built = built_kind();

    if (built == STARTER_AUTO) {
        return error_set(TUTTI_ERR_INVALID,
                "--mpi-collectives: this tutti was built without MPI; build it with "
                "the "
                "MPI of the program");
    }
    if (linked->kind != STARTER_AUTO && linked->kind != built) {
        return error_set(TUTTI_ERR_INVALID,
                "--mpi-collectives: %s is linked to %s (%s), but this tutti was built "
                "with "
                "%s; use the tuttirun of a tutti that was built with the program's MPI",
                program, title_of(linked->kind), linked->library, title_of(built));
    }
    return TUTTI_OK;
}

tutti_status mpi_collectives_find(
        const char *self, const char *program, const struct linked *linked, char *file)
{
    /* As installed, and as built. */
    const char *const places[] = { built_preload_dir, "lib" };
    const char *slash = strrchr(self, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - self);
    const tutti_status status = check_mpi(program, linked);

    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int length = snprintf(
                file, PATH_MAX, "%.*s/../%s/" LIBRARY, folder, self, places[i]);

        if (length > 0 && length < PATH_MAX && access(file, R_OK) == 0) {
            return TUTTI_OK;
        }
    }
    return error_set(TUTTI_ERR_INVALID,
            "--mpi-collectives: there is no " LIBRARY
            " in %.*s/../%s; install tutti whole",
            folder, self, built_preload_dir);
}

bool mpi_collectives_are_here(char *const *environment)
{
    const char *file = environment_get(environment, MPI_COLLECTIVES_VARIABLE);

    if (file == NULL || access(file, R_OK) == 0) {
        return true;
    }
    error_note(
            "--mpi-collectives: there is no %s on this host; tutti must be at the same "
            "place on all hosts",
            file);
    return false;
}

void mpi_collectives_tell_program(struct arguments *environment)
{
    static char *const nothing[] = { NULL };
    char *const *variables = environment->items == NULL ? nothing : environment->items;
    const char *file = environment_get(variables, MPI_COLLECTIVES_VARIABLE);
    const char *others = environment_get(variables, PRELOAD);
    char value[2 * PATH_MAX];

    if (file != NULL) {
        (void)snprintf(value, sizeof value, "%s%s%s", file, others == NULL ? "" : ":",
                others == NULL ? "" : others);
        arguments_set(environment, PRELOAD, value);
    }
}
