/*
 * The agents on all hosts: starts them, reads their answers, and lets them connect to each other.
 */
#ifndef TUTTI_TOOLS_CHECK_CHECK_HOSTS_H
#define TUTTI_TOOLS_CHECK_CHECK_HOSTS_H

#include "launcher/mpi_launcher/job_network.h"
#include "launcher/process.h"
#include "tools/check/check.h"
#include "tools/check/talk.h"

/** One host. */
struct check_host {
    struct seen seen; /* owned                                      */
    struct talk talk; /* with its agent                             */
    struct process process; /* ssh, srun, or the agent itself             */
    int64_t started_ns; /* 0: not yet                                 */
};

struct check_hosts {
    const struct check_plan *plan; /* borrowed                                    */
    struct findings_yardstick
            yardstick; /* `here` and `self` point to what follows      */
    struct facts here; /* of this machine                             */
    char self[4096]; /* our path                                    */
    struct check_host *members; /* [count], owned                              */
    struct loop loop; /* over the processes                         */
    struct seen **seen; /* [count], of the members; owned              */
    size_t count;
    struct network_choice network; /* of --nic; empty: by route                   */
    struct findings general; /* about no single host; owned                 */
    size_t pairs, pairs_well; /* connections tried, and made                 */
    double pairs_ms; /* that they took together                     */
};

/**
 * One member for each host of the plan, this machine when it names none.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY; check_hosts_fini() in every case
 */
TUTTI_MUST_USE tutti_status check_hosts_init(
        struct check_hosts *checked, const struct check_plan *plan);
/** Starts the agents and reads their facts, until all answered, ended or are late. */
void check_hosts_gather(struct check_hosts *checked);
/** Looks at why ssh did not get through, step by step. */
void check_hosts_probe(struct check_hosts *checked);
/** Lets every host that answered connect to all others. */
void check_hosts_pair(struct check_hosts *checked);
/** Ends the agents that are left. */
void check_hosts_fini(struct check_hosts *checked);

#endif
