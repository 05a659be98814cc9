/*
 * A job under tuttirun: starts the MPI launcher, receives what its supervisors send, decides what failed
 * first, stops what is left and says what happened.
 */
#ifndef TUTTI_LAUNCHER_JOB_JOB_H
#define TUTTI_LAUNCHER_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/hosts/source.h"
#include "launcher/options.h"

struct job;
struct loop;

/** What one generation of an elastic job has to do with the others: launcher/elastic. */
struct job_hooks {
    void *owner; /* handed to the functions                                 */
    uint32_t generation; /* from 1                                          */
    const char *job; /* identity of all generations                          */
    uint16_t keeper_port; /* where keepers call                               */
    uint16_t dashboard_port; /* of the generation before; 0: it had none      */
    bool (*begin)(void *owner, struct job *job); /* false: it cannot be waited with  */
    void (*turn)(void *owner, struct job *job); /* after each wait                 */
    /* When it wants a turn at the latest, our clock. */
    int64_t (*next)(void *owner, const struct job *job);
    bool (*end)(
            void *owner, const struct job *job); /* true: another generation follows */
};

struct job_plan {
    const struct options *options;
    const struct placement *placement;
    char *const *command; /* the MPI launcher's, NULL-terminated */
    const struct job_hooks *hooks; /* NULL: the job is not elastic              */
    char *const *environment; /* for the MPI launcher; LINK_VARIABLE is added to it */
};

enum {
    JOB_NAME_MAX = 64 /* bytes of a job's identity with its zero */
};

/** A name that no other job of this user on these hosts has. */
void job_make_name(char name[JOB_NAME_MAX]);

/**
 * Runs it to its end. Prints the ranks' output, and at last the report of a failure.
 * @return exit status of tuttirun
 */
int job_run(const struct job_plan *plan);

#endif
