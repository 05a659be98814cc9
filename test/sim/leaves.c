/*
 * Planning when the members of a set join and leave.
 */
#include "generator.h"
#include "grow.h"

/* Some members, but not all, leave in a wave before the last. */
static void plan_leaving(struct leave_plan *plan, const struct scenario *scenario,
        const struct sim_set *set, struct rng *rng)
{
    const int last = scenario->wave_count - 1;
    const bool some = scenario->finalizes && set->size > 1 && rng_chance(rng, 12);
    const int wave = rng_below(rng, last);
    const int chance = rng_range(rng, 10, 60);

    plan->leaves = sim_alloc((size_t)set->size, sizeof *plan->leaves);
    for (int m = 0; m < set->size; m++) {
        const bool leaves = some && m != wave % set->size && rng_chance(rng, chance);

        plan->leaves[m] = leaves ? wave : last;
        plan->someone_leaves = plan->someone_leaves || leaves;
    }
}

static void add_epoch(struct leave_plan *plan, const struct sim_set *set, int first,
        int last, struct rng *rng)
{
    struct epoch *epoch = &plan->epochs[plan->epoch_count++];

    *epoch = (struct epoch){ .first = first, .last = last };
    epoch->joins = sim_alloc((size_t)set->size, sizeof *epoch->joins);
    for (int m = 0; m < set->size; m++) {
        const int wave = rng_range(rng, first, last);

        /* A member that leaves before the end of the epoch does not join. */
        epoch->joins[m] = plan->leaves[m] <= last ? -1 : wave;
    }
    plan->silent[last] = true;
}

static enum role role_in(const struct leave_plan *plan, int wave, int member)
{
    if (plan->someone_leaves && plan->leaves[member] <= wave) {
        return ROLE_LEFT;
    }
    for (int e = 0; e < plan->epoch_count; e++) {
        const struct epoch *epoch = &plan->epochs[e];

        if (wave >= epoch->first && wave < epoch->last && epoch->joins[member] >= 0 &&
                epoch->joins[member] <= wave) {
            return ROLE_JOINED;
        }
    }
    return ROLE_NORMAL;
}

void leave_plan_make(struct leave_plan *plan, const struct scenario *scenario,
        struct sim_set *set, struct rng *rng)
{
    const int waves = scenario->wave_count - 1;
    const int usual = scenario->mode == MODE_ABSENT || rng_chance(rng, 60)
            ? 0
            : rng_range(rng, 10, 60);
    const int chance = scenario->is_training ? scenario->training.joins : usual;

    *plan = (struct leave_plan){ .epoch_count = 0 };
    plan_leaving(plan, scenario, set, rng);
    for (int w = 0; w < waves; w++) {
        if (rng_chance(rng, chance)) {
            const int first = w;

            w = rng_range(rng, w, w + 4 < waves ? w + 4 : waves - 1);
            add_epoch(plan, set, first, w, rng);
        }
    }
    set->joins = plan->epoch_count > 0 || plan->someone_leaves;
}

uint8_t *leave_roles(const struct leave_plan *plan, int wave, const struct sim_set *set)
{
    uint8_t *roles = sim_alloc((size_t)set->size, sizeof *roles);
    bool any = false;

    for (int m = 0; m < set->size; m++) {
        roles[m] = (uint8_t)role_in(plan, wave, m);
        any = any || roles[m] != ROLE_NORMAL;
    }
    if (!any) {
        free(roles);
        return NULL;
    }
    return roles;
}
