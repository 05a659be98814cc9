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
