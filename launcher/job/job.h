/*
 * A job under tuttirun: starts the starter, hears its supervisors, decides what failed
 * first, stops what is left and says what happened.
 */
#ifndef TUTTI_LAUNCHER_JOB_JOB_H
#define TUTTI_LAUNCHER_JOB_JOB_H

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/hosts/source.h"
#include "launcher/options.h"

/** Exit statuses of tuttirun that are not a rank's. */
enum job_exit {
    JOB_EXIT_TIMEOUT = 124, /* --timeout                        */
    JOB_EXIT_LAUNCHER = 125, /* tuttirun or the starter failed    */
    JOB_EXIT_CANNOT_RUN = 126, /* a host could not run the program */
    JOB_EXIT_NOT_FOUND = 127 /* a host did not find the program  */
};

struct job_plan {
    const struct options *options;
    const struct placement *placement;
    char *const *command; /* the starter's, NULL-terminated */
    char *const *environment; /* for the starter; LINK_VARIABLE is added to it */
};

/**
 * Runs it to its end. Prints the ranks' output, and at last the report of a failure.
 * @return exit status of tuttirun
 */
int job_run(const struct job_plan *plan);

#endif
