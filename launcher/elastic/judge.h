/*
 * How a generation of an elastic job has ended, and which hosts are to blame. Pure.
 */
#ifndef TUTTI_LAUNCHER_ELASTIC_JUDGE_H
#define TUTTI_LAUNCHER_ELASTIC_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/elastic/members.h"
#include "launcher/job/ranks.h"
#include "launcher/job/report.h"

/** What is known of a generation that has ended. Borrowed. */
struct judge_facts {
    uint32_t generation;
    const struct ranks *ranks;
    const struct cause *cause;
    const struct host_list
            *hosts; /* on whose slots they were, in order; empty: this machine */
    int orphan; /* rank whose MPI launcher's daemon died first; -1: none    */
    /* True when the MPI launcher named a host in what it said. */
    bool (*names)(const void *context, const char *host);
    const void *context;
};

enum judge_verdict {
    JUDGE_FINISHED, /* the program is done                             */
    JUDGE_LEFT, /* all ranks left, to be started anew              */
    JUDGE_FAILED, /* in a way of which another start may be spared   */
    JUDGE_FATAL /* another start would end in the same way, or is not wanted */
};

/** True for a line of ssh that does not reach this host. */
bool judge_names(const char *line, const char *host);
/** What has happened. */
enum judge_verdict judge_end(const struct judge_facts *facts);
/**
 * Blames hosts for a JUDGE_FAILED, after forgetting earlier failures where the job has
 * committed since. Says on stderr which are put aside.
 */
void judge_hosts(const struct judge_facts *facts, struct members *members, int64_t now);

#endif
