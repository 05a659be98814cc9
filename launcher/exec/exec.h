/*
 * tuttirun --exec: the supervisor that the MPI launcher starts for every rank.
 */
#ifndef TUTTI_LAUNCHER_EXEC_EXEC_H
#define TUTTI_LAUNCHER_EXEC_EXEC_H

#include <stdbool.h>

#include "launcher/exec/rank.h"
#include "launcher/options.h"

/**
 * Runs "[flags] [--] program args" as the rank that the MPI launcher's variables tell, bound
 * to its share of the host. A word of the program that begins with '=' loses it: that hides
 * from MPI launchers what they would read. With the variable LINK_VARIABLE it supervises the
 * program for the tuttirun named there; without, it binds and becomes the program.
 * @param argv  what follows --exec, NULL-terminated
 * @return the exit status of the process
 */
int exec_main(char *const *argv, char *const *environment);

/** What tuttirun --exec was asked for. */
struct exec_plan {
    char *const *argv; /* program and arguments, NULL-terminated        */
    char *const *environment; /* of this process                         */
    struct rank_place rank;
    enum options_bind how;
    bool one_gpu; /* --gpus-visible one */
    bool verbose;
};

/**
 * Runs the program for the tuttirun of LINK_VARIABLE.
 * @param join  the value of the variable
 * @return exit status of the process
 */
int supervisor_run(const struct exec_plan *plan, const char *join);

#endif
