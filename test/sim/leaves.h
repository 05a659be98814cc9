/*
 * When the members of a set join, and when they leave.
 *
 * An epoch is a run of waves in which members join, each when it has done its share of
 * the calls; in the wave behind it the others join, and nothing else happens in the set.
 */
#ifndef TUTTI_SIM_PARTINGS_H
#define TUTTI_SIM_PARTINGS_H

#include "rng.h"
#include "scenario.h"

struct epoch {
    int first, last; /* the last is the one without calls                       */
    int *joins; /* [set size] wave in which each member joins; goes to the call */
};

struct leave_plan {
    struct epoch epochs[SIM_WAVES_MAX];
    int epoch_count;
    int *leaves; /* [set size] wave in which each member leaves; the same     */
    bool silent[SIM_WAVES_MAX + 1];
    bool late[SIM_WAVES_MAX + 1]; /* some part in it, and the others are late */
    bool someone_leaves; /* before the end */
};

/*
 * Late are those that do not part with a tensor that the others have submitted before they
 * part: these in the wave before, those in the wave behind. In between they wait for
 * something that ends only when the others have joined or finalized.
 */
void leave_plan_make(struct leave_plan *plan, const struct scenario *scenario,
        struct sim_set *set, struct rng *rng);
/** [set size] The wave in which each member makes a call with which some are late. */
int *leave_late_waves(
        const struct leave_plan *plan, int wave, const struct sim_set *set);
/** The roles of those that have joined or finalized before a wave, or that part in it; NULL: nobody. */
uint8_t *leave_roles(
        const struct leave_plan *plan, int wave, const struct sim_set *set);

#endif
