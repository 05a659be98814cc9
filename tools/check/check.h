/*
 * tuttirun --check: whether jobs can run on hosts, before one is started.
 *
 *     tuttirun --check -H a,b ---- ssh or srun ----> tuttirun --check-host   on a
 *                              \-- ssh or srun ----> tuttirun --check-host   on b
 *
 * On all hosts at once. Their facts are evaluated (host_findings.h) and printed (check_show.h); for a host
 * that does not answer, ssh is tested step by step. Finally every host connects to every other one.
 */
#ifndef TUTTI_TOOLS_CHECK_CHECK_H
#define TUTTI_TOOLS_CHECK_CHECK_H

#include <stdbool.h>

#include "launcher/hosts/source.h"
#include "launcher/options.h"

/** What is looked at. */
struct check_plan {
    const struct options *options;
    const struct placement *placement; /* where a job would run                      */
    char *const *environment;
    const char *launcher; /* path of what would start it; "": none was found */
};

/**
 * Looks at the hosts where a job would run, and prints what it finds.
 * @return exit status of tuttirun: 0, or EXIT_LAUNCHER when something is wrong
 */
int check_run(const struct options *options, char *const *environment);

/**
 * Runs as one of the parts that tuttirun --check starts: --check-host, --check-connect,
 * --check-listen.
 * @param[out] status  exit status of the process
 * @return false when argv[1] is none of them; nothing was done
 */
bool check_part(char *const *argv, char *const *environment, int *status);

#endif
