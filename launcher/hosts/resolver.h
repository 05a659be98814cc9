/*
 * What the sources of hosts have in common. Each has a file of its own, and its place in
 * the table of source.c.
 */
#ifndef TUTTI_LAUNCHER_HOSTS_RESOLVER_H
#define TUTTI_LAUNCHER_HOSTS_RESOLVER_H

#include <stdbool.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "launcher/hosts/source.h"

enum {
    RESOLVER_PATH_MAX = 4096 /* bytes of a path with its zero */
};

struct resolver {
    const char *name; /* "Slurm", for people                                    */
    bool allocates; /* it says which hosts are ours, so that -H can be checked */
    /*
     * Describes what it found in placement->source; leaves that empty, and the placement as
     * it was, when the source is not there.
     */
    tutti_status (*resolve)(
            const struct source_facts *facts, struct placement *placement);
};

extern const struct resolver resolver_script; /* script_hosts.c     */
extern const struct resolver resolver_slurm; /* slurm.c            */
extern const struct resolver resolver_pbs; /* pbs.c              */
extern const struct resolver resolver_lsf; /* lsf.c              */
extern const struct resolver resolver_sge; /* sge.c              */
extern const struct resolver resolver_sagemaker; /* sagemaker.c        */
extern const struct resolver resolver_batch; /* aws_batch.c        */
extern const struct resolver resolver_indexed; /* indexed_job.c      */
extern const struct resolver resolver_kubeflow; /* kubeflow.c         */
extern const struct resolver resolver_tf_config; /* tf_config.c        */
extern const struct resolver resolver_tpu; /* tpu.c              */

/** Which shard an array job is; {0, 0} when it is none. @return TUTTI_OK, TUTTI_ERR_INVALID */
TUTTI_MUST_USE tutti_status shard_find(char *const *environment, struct shard *shard);

/** A variable of the facts' environment; NULL when it is not set, or empty. */
const char *resolver_get(const struct source_facts *facts, const char *name);
/** A number from it; 0 when it is not set, -1 with the error set when it is no number. */
int resolver_count(const struct source_facts *facts, const char *name);
/** The path below the facts' root. Returns path. */
const char *resolver_path(
        const struct source_facts *facts, const char *path, char *file);

/** Reads a hostfile below the facts' root in which each line that gives no number is a slot. */
TUTTI_MUST_USE tutti_status resolver_hostfile(const struct source_facts *facts,
        struct placement *placement, const char *path);

/** Moves *next behind the next word of a text and returns it; NULL when there is none. */
char *resolver_word(char **next);

/** Says where the hosts are from. */
void resolver_describe(struct placement *placement, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/**
 * Adds a host that `origin`, a variable or file, names.
 * @param slots  0: it does not say
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names origin and host)
 */
TUTTI_MUST_USE tutti_status resolver_add(
        struct placement *placement, const char *origin, const char *name, int slots);
/** The same with slots as text, which may be NULL where there is none: an error. */
TUTTI_MUST_USE tutti_status resolver_add_counted(struct placement *placement,
        const char *origin, const char *name, const char *slots);

#endif
