/*
 * What the parts of the generator of scenarios share: scenario.c and training.c.
 */
#ifndef TUTTI_SIM_GENERATOR_H
#define TUTTI_SIM_GENERATOR_H

#include "leaves.h"
#include "rng.h"
#include "scenario.h"

enum {
    TEMPLATES_MAX = 10
};

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
/**
 * The calls that some members make before they part, and the others behind that. They have
 * waves of their own, and so come behind all others.
 */
void training_add_late(struct generator *gen, int set);

#endif
