/*
 * The supervisor of a rank: starts the program, reads its output, reports to tuttirun, and leaves
 * nothing of it behind. One thread, one loop:
 *
 *   STARTING --exec--> RUNNING --exit--> DRAINING --EXITED sent--> REPORTED --> ends
 *
 * It ends when tuttirun has released it, or is lost, and no process of the rank is left.
 */
#ifndef TUTTI_LAUNCHER_EXEC_SUPERVISOR_H
#define TUTTI_LAUNCHER_EXEC_SUPERVISOR_H

#include <stdbool.h>

#include "launcher/exec/rank.h"
#include "launcher/options.h"

/** What tuttirun --exec was asked for. */
struct exec_plan {
    char *const *argv; /* program and arguments, NULL-terminated        */
    char *const *environment; /* of this process                         */
    struct rank rank;
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
