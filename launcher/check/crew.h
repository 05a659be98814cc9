/*
 * The agents on all hosts: starts them, hears them, and lets them connect to each other.
 */
#ifndef TUTTI_LAUNCHER_CHECK_CREW_H
#define TUTTI_LAUNCHER_CHECK_CREW_H

#include "launcher/check/check.h"
#include "launcher/check/talk.h"
#include "launcher/engine/network.h"
#include "launcher/process.h"

/** One host. */
struct crew_member {
    struct seen seen; /* owned                                      */
    struct talk talk; /* with its agent                             */
    struct process process; /* ssh, srun, or the agent itself             */
    int64_t started_ns; /* 0: not yet                                 */
};

struct crew {
    const struct check_plan *plan; /* borrowed                                    */
    struct judge_yardstick yardstick; /* `here` and `self` point to what follows      */
    struct facts here; /* of this machine                             */
    char self[4096]; /* our path                                    */
    struct crew_member *members; /* [count], owned                              */
    struct process **processes; /* [count], of the members; owned              */
    struct seen **seen; /* [count], of the members; owned              */
    size_t count;
    struct network_choice network; /* of --nic; empty: by route                   */
    struct findings general; /* about no single host; owned                 */
    size_t pairs, pairs_well; /* connections tried, and made                 */
    double pairs_ms; /* that they took together                     */
};

/**
 * One member for each host of the plan, this machine when it names none.
 * @param own_name  of this machine
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY; crew_fini() in every case
 */
TUTTI_MUST_USE tutti_status crew_init(
        struct crew *crew, const struct check_plan *plan, const char *own_name);
/** Starts the agents and hears their facts, until all answered, ended or are late. */
void crew_gather(struct crew *crew);
/** Looks at why ssh did not get through, step by step. */
void crew_probe(struct crew *crew);
/** Lets every host that answered connect to all others. */
void crew_pair(struct crew *crew);
/** Ends the agents that are left. */
void crew_fini(struct crew *crew);

#endif
