/*
 * Where the ranks of a job may run: one resolver per source, tried in the order of a
 * table (source.c), the first that finds hosts counts.
 */
#ifndef TUTTI_LAUNCHER_HOSTS_SOURCE_H
#define TUTTI_LAUNCHER_HOSTS_SOURCE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "launcher/hosts/host_list.h"
#include "launcher/options.h"

enum {
    JOIN_SECRET_MAX = 1024, /* bytes of the secret of hosts that join */
    SOURCE_TEXT_MAX = 256 /* bytes of a description with its zero */
};

/** What a resolver looks at; nothing else. */
struct source_facts {
    const struct options *options; /* hosts of the command line */
    char *const *environment; /* NAME=VALUE, NULL-terminated                  */
    const char *root; /* put before absolute paths such as /etc/mpi/hostfile: "" or a
                         test's folder */
    int script_ms; /* how long a discovery script may run; 0: 60 s */
};

/** Which part of the data is this job's, in an array of independent jobs. */
struct shard {
    int index; /* 0 to count - 1      */
    int count; /* 0: not an array job */
};

/** Where each host starts its own ranks: launcher/here/here.h. */
struct join_place {
    int nodes; /* that take part, this one included; 0: one host starts all  */
    int index; /* of this one                                            */
    char first[HOST_NAME_LIMIT]; /* host to join; on that itself it may be "" */
    int port; /* on that                                                */
    char key[SOURCE_TEXT_MAX]; /* that all of the job know              */
    char secret[JOIN_SECRET_MAX]; /* that nobody else knows; here/secret.c */
    size_t secret_len; /* bytes of it; 0: the network is trusted  */
};

/** The ranks that are started here. */
struct share {
    bool is_set; /* false: those of all hosts */
    int first;
    int count;
};

/** Where a job runs. Zeroed is valid input for placement_fini(). */
struct placement {
    struct host_list hosts; /* empty: this machine                                 */
    char source
            [SOURCE_TEXT_MAX]; /* "Slurm job 17", "-H", "this machine": for people  */
    int ranks; /* that the source asks for; 0: it does not say         */
    bool is_slurm; /* the hosts are those of a Slurm allocation: srun reaches them */
    bool waits; /* this process was started on a host that is not the first: that runs the
                   job, and this one its own ranks */
    char own[HOST_NAME_LIMIT]; /* what the source calls this host; "": it does not */
    struct shard shard;
    char *roles; /* "chief,worker,ps": of the ranks on all slots; NULL: not asked for; owned */
    struct join_place join;
    struct share share;
    char failure[SOURCE_TEXT_MAX]; /* file that takes the reason of a failure, which the
                                      platform shows; "": none */
};

void placement_fini(struct placement *placement);

/**
 * Finds where the ranks run.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a source is malformed, or -H names hosts outside
 *         the allocation; the error names source, value and the way out),
 *         TUTTI_ERR_SYSTEM (a file or script), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status source_resolve(
        const struct source_facts *facts, struct placement *placement);

/**
 * One line for people: "4 ranks on 2 hosts from Slurm job 17: a:2,b:2".
 * @return text
 */
const char *placement_describe(
        const struct placement *placement, int ranks, char *text, size_t capacity);

#endif
