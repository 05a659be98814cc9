/*
 * What the parts of the generator of scenarios share: scenario.c, training.c and leaves.c.
 */
#ifndef TUTTI_SIM_GENERATOR_H
#define TUTTI_SIM_GENERATOR_H

#include "rng.h"
#include "scenario.h"

enum {
    TEMPLATES_MAX = 10
};

/*
 * When the members of a set join, and when they leave: leaves.c.
 *
 * An epoch is a run of waves in which members join, each when it has done its share of
 * the calls; in the wave behind it the others join, and nothing else happens in the set.
 */
struct epoch {
    int first, last; /* the last is the one without calls                       */
    int *joins; /* [set size] wave in which each member joins; goes to the call */
};

struct leave_plan {
    struct epoch epochs[SIM_WAVES_MAX];
    int epoch_count;
    int *leaves; /* [set size] wave in which each member leaves; the same     */
    bool silent[SIM_WAVES_MAX + 1];
    bool someone_leaves; /* before the end */
};

void leave_plan_make(struct leave_plan *plan, const struct scenario *scenario,
        struct sim_set *set, struct rng *rng);
/** The roles of the members that leave in a wave or have left before; NULL: none. */
uint8_t *leave_roles(
        const struct leave_plan *plan, int wave, const struct sim_set *set);

/** A call that is repeated in most waves. */
struct template
{
    int names[SIM_GROUP_MAX];
    int count;
    bool grouped;

    /* of training programs */
    int every; /* it is made in every so manieth iteration                   */
    int shape; /* of steps that it belongs to; -1: all                       */
    int part; /* of an iteration                                            */
    int until; /* iteration from which on it is not made any more            */
    bool evaluates; /* it belongs to the evaluation                               */
};

struct generator {
    struct scenario *scenario;
    struct rng rng;
    struct template templates[SIM_SETS_MAX][TEMPLATES_MAX];
    int template_counts[SIM_SETS_MAX];
    int deviations_left;
    int deviation_chance; /* percent of the calls, while some are left */
    struct leave_plan plans[SIM_SETS_MAX];
};

/** A new name in a set; its index. */
int generate_name(struct generator *gen, int set, int collective);
/** The same, for some collective on tensors. */
int generate_tensor(struct generator *gen, int set);
/** A call in a wave; its index. */
int generate_call(struct generator *gen, int wave, const struct template *template);
/** Some ranks may deviate from the call, if that is what the scenario is about. */
void generate_deviation(struct generator *gen, int index);
/** False when something of it may hang. */
bool template_is_usable(const struct generator *gen, const struct template *t);

/** Whether the scenario is a training program, and what is special about that. */
void training_choose(struct generator *gen);
/** The names that its iterations repeat. */
void training_make_templates(struct generator *gen, int set);
/** The calls of the waves that its iterations consist of. */
void training_make_waves(struct generator *gen);

#endif
