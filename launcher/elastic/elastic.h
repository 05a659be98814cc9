/*
 * An elastic job: one generation after the other, each a job of launcher/job, until one ends well
 * or none can follow. docs/design/elastic.md.
 */
#ifndef TUTTI_LAUNCHER_ELASTIC_ELASTIC_H
#define TUTTI_LAUNCHER_ELASTIC_ELASTIC_H

#include "launcher/hosts/source.h"
#include "launcher/job/job.h"
#include "launcher/options.h"

/** Runs a generation to its end. @return exit status of tuttirun */
typedef int (*elastic_generation)(const struct options *options,
        const struct placement *placement, const struct job_hooks *hooks,
        char *const *environment);

/**
 * Runs a job of which options->min_np is set.
 * @param placement  where the first generation may run
 * @return exit status of tuttirun
 */
int elastic_run(const struct options *options, const struct placement *placement,
        elastic_generation generation, char *const *environment);

#endif
