/*
 * Generating scenarios.
 */
#include "scenario.h"

#include <stdio.h>

#include "agree/negotiator.h"
#include "generator.h"
#include "grow.h"

/* Waves of a program that does not train. */
#define WAVES_MAX 16

/* -------------------------------------------------------------------- sets */

static int world_size(struct rng *rng, uint64_t seed)
{
    if (seed % 499 == 7) {
        return rng_range(rng, 200, 260);
    }
    if (seed % 37 == 3) {
        return rng_range(rng, 17, 64);
    }
    return rng_chance(rng, 75) ? rng_range(rng, 2, 8) : rng_range(rng, 2, 16);
}

static int *assign_nodes(struct rng *rng, int ranks)
{
    const int count = rng_chance(rng, 30) ? 1 : rng_range(rng, 1, ranks);
    const bool blocks = rng_chance(rng, 50);
    int *nodes = sim_alloc((size_t)ranks, sizeof *nodes);

    for (int r = 0; r < ranks; r++) {
        nodes[r] = blocks ? r * count / ranks : rng_below(rng, count);
    }
    return nodes;
}

static void add_set(struct generator *gen, const int *ranks, int size, const int *nodes)
{
    static const int boards[] = { 0, 50, 100, 100 };
    struct scenario *s = gen->scenario;
    struct sim_set *set = &s->sets[s->set_count++];

    set->size = size;
    set->ranks = sim_alloc((size_t)size, sizeof *set->ranks);
    set->nodes = sim_alloc((size_t)size, sizeof *set->nodes);
    set->member_of = sim_alloc((size_t)s->ranks, sizeof *set->member_of);
    for (int r = 0; r < s->ranks; r++) {
        set->member_of[r] = -1;
    }
    for (int m = 0; m < size; m++) {
        set->ranks[m] = ranks[m];
        set->nodes[m] = nodes[ranks[m]];
        set->member_of[ranks[m]] = m;
    }
    if (!tree_shape_init(&set->shape, size, set->nodes, s->fanout)) {
        abort();
    }
    set->boards = boards[rng_below(&gen->rng, 4)];
}

static void make_sets(struct generator *gen)
{
    struct scenario *s = gen->scenario;
    const int most = s->ranks > 64 ? 2 : s->is_training ? 3 : SIM_SETS_MAX;
    const int extra = rng_below(&gen->rng, most);
    int *nodes = assign_nodes(&gen->rng, s->ranks);
    int *ranks = sim_alloc((size_t)s->ranks, sizeof *ranks);

    for (int r = 0; r < s->ranks; r++) {
        ranks[r] = r;
    }
    add_set(gen, ranks, s->ranks, nodes);
    for (int i = 0; i < extra; i++) {
        rng_shuffle(&gen->rng, ranks, s->ranks);
        add_set(gen, ranks, rng_range(&gen->rng, 1, s->ranks), nodes);
    }
    free(ranks);
    free(nodes);
}

/* ------------------------------------------------------------------- names */

/* Some on a device. Of the seed alone, so that the rest of a scenario stays as it was. */
static enum op_space random_space(const struct generator *gen)
{
    const struct scenario *s = gen->scenario;

    return hash_u64(s->seed, (uint64_t)s->name_count) % 4 == 0 ? OP_DEVICE : OP_HOST;
}

static void random_meta(struct generator *gen, struct sim_name *name)
{
    struct rng *rng = &gen->rng;
    const int size = gen->scenario->sets[name->set].size;
    struct meta *meta = &name->meta;

    *meta = (struct meta){ .prescale = 1, .postscale = 1 };
    if (name->collective == TUTTI_BARRIER || name->collective >= META_SET_CREATE) {
        return;
    }
    meta->count = rng_range(rng, 1, 200);
    meta->dtype = (tutti_dtype)rng_below(rng, 12);
    meta->space = random_space(gen);
    if (rng_chance(rng, 30)) {
        meta->ndim = SIM_DIMS;
        name->dims[0] = meta->count;
        name->dims[1] = 1;
    }
    if (name->collective == TUTTI_BROADCAST || name->collective == TUTTI_GATHER ||
            name->collective == TUTTI_SCATTER || name->collective == TUTTI_REDUCE) {
        meta->root = rng_below(rng, size);
    }
    if (name->collective == TUTTI_ALLTOALL) {
        meta->form = META_LISTED;
    }
    if (name->collective != TUTTI_ALLREDUCE && name->collective != TUTTI_REDUCE &&
            name->collective != TUTTI_REDUCESCATTER) {
        return;
    }
    meta->op = (tutti_reduce_op)rng_below(rng, 5);
    meta->postscale = rng_chance(rng, 20) ? 0.5 : 1;
}

/* Names are scoped by set and collective, so their texts are only unique within. */
static int count_names(const struct scenario *s, int set, int collective)
{
    int count = 0;

    for (int i = 0; i < s->name_count; i++) {
        count += s->names[i].set == set && s->names[i].collective == collective ? 1 : 0;
    }
    return count;
}

/* Of the seed alone, as random_space(). */
static enum sim_steps choose_steps(const struct generator *gen)
{
    const struct scenario *s = gen->scenario;
    const uint64_t random = hash_u64(s->seed + 1, (uint64_t)s->name_count);

    return (enum sim_steps)(random % STEPS_COUNT);
}

/* What the next call of a name gives. */
static uint64_t next_step(const struct scenario *s, const struct sim_name *name)
{
    const uint64_t call = (uint64_t)name->calls;
    const uint64_t random = hash_u64(s->seed + 2, call * 1000 + (uint64_t)name->set);

    switch (name->steps) {
    case STEPS_EVEN:
        return 1 + call * (1 + 2 * (s->seed % 2));
    case STEPS_RUNS:
        return 1 + call / (2 + s->seed % 3);
    case STEPS_WILD:
        return random % 8 == 0 ? random % 5 : 10 + call;
    case STEPS_NONE:
    case STEPS_COUNT:
        break;
    }
    return 0;
}

int generate_name(struct generator *gen, int set, int collective)
{
    struct scenario *s = gen->scenario;
    const int index = s->name_count;
    const int position = count_names(s, set, collective);
    struct sim_name *name;

    s->names = sim_grow(s->names, s->name_count, sizeof *s->names);
    s->name_count++;
    name = &s->names[index];
    name->set = set;
    name->collective = collective;
    name->steps = collective < META_SET_CREATE ? choose_steps(gen) : STEPS_NONE;
    (void)snprintf(name->text, sizeof name->text, "layer.%d", position);
    random_meta(gen, name);
    return index;
}

int generate_tensor(struct generator *gen, int set)
{
    static const int others[] = { TUTTI_BROADCAST, TUTTI_BROADCAST, TUTTI_REDUCE,
        TUTTI_REDUCESCATTER, TUTTI_ALLTOALL, TUTTI_GATHER, TUTTI_SCATTER };

    return generate_name(gen, set,
            rng_chance(&gen->rng, 65) ? TUTTI_ALLREDUCE
                                      : others[rng_below(&gen->rng, 7)]);
}

static void make_templates(struct generator *gen, int set)
{
    struct rng *rng = &gen->rng;
    const int count = rng_range(rng, 1, 5);

    for (int t = 0; t < count; t++) {
        struct template *template = &gen->templates[set][t];

        template->grouped = rng_chance(rng, 30);
        template->count = template->grouped ? rng_range(rng, 1, SIM_GROUP_MAX) : 1;
        for (int i = 0; i < template->count; i++) {
            template->names[i] = generate_tensor(gen, set);
        }
    }
    gen->template_counts[set] = count;
}

/* ------------------------------------------------------------------- calls */

static void add_item(struct generator *gen, int call, int name, bool extra)
{
    struct scenario *s = gen->scenario;
    struct sim_item *item;

    s->items = sim_grow(s->items, s->item_count, sizeof *s->items);
    item = &s->items[s->item_count++];
    item->name = name;
    item->call = call;
    item->meta = s->names[name].meta;
    item->meta.step = next_step(s, &s->names[name]);
    s->names[name].calls++;
    memcpy(item->dims, s->names[name].dims, sizeof item->dims);
    item->phase = s->names[name].phase;
    item->extra = extra;
    s->calls[call].count++;
}

int generate_call(struct generator *gen, int wave, const struct template *template)
{
    struct scenario *s = gen->scenario;
    const int index = s->call_count;

    s->calls = sim_grow(s->calls, s->call_count, sizeof *s->calls);
    s->call_count++;
    s->calls[index].set = s->names[template->names[0]].set;
    s->calls[index].wave = wave;
    s->calls[index].first = s->item_count;
    s->calls[index].grouped = template->grouped;
    s->calls[index].target = s->item_count;
    s->calls[index].roles = leave_roles(
            &gen->plans[s->calls[index].set], wave, &s->sets[s->calls[index].set]);
    for (int i = 0; i < template->count; i++) {
        add_item(gen, index, template->names[i], false);
    }
    return index;
}

bool template_is_usable(const struct generator *gen, const struct template *t)
{
    for (int i = 0; i < t->count; i++) {
        if (gen->scenario->names[t->names[i]].dead) {
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------- deviations */

static enum deviation value_deviation(
        struct generator *gen, const struct sim_call *call)
{
    const struct sim_name *name =
            &gen->scenario->names[gen->scenario->items[call->target].name];

    switch (rng_below(&gen->rng, 4)) {
    case 0:
        if (hash_u64(gen->scenario->seed, (uint64_t)call->target) % 2 == 0) {
            return DEVIATION_SPACE;
        }
        return DEVIATION_DTYPE;
    case 1:
        if (hash_u64(gen->scenario->seed, (uint64_t)call->target) % 2 == 0) {
            return DEVIATION_STEP;
        }
        return DEVIATION_COUNT;
    case 2:
        return DEVIATION_SHAPE;
    default:
        break;
    }
    if (name->collective >= TUTTI_ALLTOALL && name->collective != TUTTI_REDUCE) {
        return rng_chance(&gen->rng, 75) ? DEVIATION_ROW_COUNTS : DEVIATION_ROOT;
    }
    if (name->collective == TUTTI_BROADCAST) {
        return DEVIATION_ROOT;
    }
    return rng_chance(&gen->rng, 50) ? DEVIATION_OP : DEVIATION_SCALE;
}

static enum deviation choose_deviation(
        struct generator *gen, const struct sim_call *call)
{
    if (gen->scenario->mode == MODE_ABSENT) {
        return DEVIATION_ABSENT;
    }
    /* Groups that differ may leave something behind, which the next join would end. */
    if (!call->grouped || gen->scenario->sets[call->set].joins ||
            rng_chance(&gen->rng, 30)) {
        return value_deviation(gen, call);
    }
    if (call->count > 1 && rng_chance(&gen->rng, 70)) {
        return rng_chance(&gen->rng, 40) ? DEVIATION_GROUP_LESS : DEVIATION_GROUP_APART;
    }
    return DEVIATION_GROUP_MORE;
}

static bool has_third_value(enum deviation deviation)
{
    return deviation == DEVIATION_DTYPE || deviation == DEVIATION_COUNT ||
            deviation == DEVIATION_SHAPE || deviation == DEVIATION_OP ||
            deviation == DEVIATION_STEP;
}

static uint8_t *choose_roles(struct generator *gen, int size, enum deviation deviation)
{
    struct rng *rng = &gen->rng;
    const int most = size / 2 > 1 && rng_chance(rng, 30) ? size / 2 : 1;
    const int odd = rng_range(rng, 1, most);
    uint8_t *roles = sim_alloc((size_t)size, sizeof *roles);

    for (int i = 0; i < odd; i++) {
        enum role role = ROLE_ODD;

        if (deviation == DEVIATION_ABSENT) {
            role = ROLE_ABSENT;
        } else if (has_third_value(deviation) && rng_chance(rng, 25)) {
            role = ROLE_ODDER;
        }
        roles[rng_below(rng, size)] = (uint8_t)role;
    }
    return roles;
}

/* The odd members submit the target alone, at any time within the wave. */
static void add_stray(struct generator *gen, int original)
{
    struct scenario *s = gen->scenario;
    const int name = s->items[s->calls[original].target].name;
    const struct template alone = { .names = { name }, .count = 1 };
    const int stray = generate_call(gen, s->calls[original].wave, &alone);
    const int size = s->sets[s->names[name].set].size;

    s->calls[stray].stray = true;
    s->items[s->calls[stray].first].meta.step =
            s->items[s->calls[original].target].meta.step;
    free(s->calls[stray].roles);
    s->calls[stray].roles = sim_alloc((size_t)size, sizeof *s->calls[stray].roles);
    for (int m = 0; m < size; m++) {
        s->calls[stray].roles[m] =
                s->calls[original].roles[m] == ROLE_NORMAL ? ROLE_ABSENT : ROLE_NORMAL;
    }
}

void generate_deviation(struct generator *gen, int index)
{
    struct scenario *s = gen->scenario;
    struct sim_call *call = &s->calls[index];
    const int size = s->sets[call->set].size;

    if (gen->deviations_left == 0 || size < 2 ||
            !rng_chance(&gen->rng, gen->deviation_chance) ||
            s->names[s->items[call->first].name].collective == TUTTI_BARRIER ||
            call->roles != NULL) {
        return;
    }
    gen->deviations_left--;
    call->target = call->first + rng_below(&gen->rng, call->count);
    call->deviation = choose_deviation(gen, call);
    call->roles = choose_roles(gen, size, call->deviation);
    if (call->deviation == DEVIATION_GROUP_MORE) {
        call->target = s->item_count;
        add_item(gen, index, generate_tensor(gen, call->set), true);
    }
    if (call->deviation == DEVIATION_ABSENT ||
            call->deviation == DEVIATION_GROUP_APART) {
        for (int i = 0; i < call->count; i++) {
            s->names[s->items[call->first + i].name].dead = true;
        }
    }
    if (call->deviation >= DEVIATION_GROUP_LESS) {
        s->names[s->items[call->target].name].dead = true;
    }
    if (call->deviation == DEVIATION_GROUP_APART) {
        add_stray(gen, index);
    }
}

/* ------------------------------------------------------------------- waves */

static void make_wave_of_set(struct generator *gen, int wave, int set)
{
    struct scenario *s = gen->scenario;
    const int one_offs = rng_chance(&gen->rng, 40) ? rng_range(&gen->rng, 1, 2) : 0;

    for (int t = 0; t < gen->template_counts[set]; t++) {
        const struct template *template = &gen->templates[set][t];

        if (!template_is_usable(gen, template) || rng_chance(&gen->rng, 20)) {
            continue;
        }
        if (rng_chance(&gen->rng, 8)) {
            s->names[template->names[0]].meta.count++;
        }
        if (rng_chance(&gen->rng, 25)) {
            s->names[template->names[0]].phase++;
        }
        generate_deviation(gen, generate_call(gen, wave, template));
    }
    for (int i = 0; i < one_offs; i++) {
        const struct template alone = {
            .names = { generate_name(gen, set,
                    rng_chance(&gen->rng, 20) ? TUTTI_BARRIER : TUTTI_ALLREDUCE) },
            .count = 1
        };

        generate_deviation(gen, generate_call(gen, wave, &alone));
    }
}

static void make_wave(struct generator *gen, int wave)
{
    struct scenario *s = gen->scenario;

    s->wave_first[wave] = s->call_count;
    for (int set = 0; set < s->set_count; set++) {
        if (rng_chance(&gen->rng, 75) && !gen->plans[set].silent[wave]) {
            make_wave_of_set(gen, wave, set);
        }
    }
}

/* The joins of a set, and its finalize: calls that each member makes in its own time. */
static void add_leaves(struct generator *gen, int set)
{
    struct scenario *s = gen->scenario;
    const struct leave_plan *plan = &gen->plans[set];
    const struct template join = { .names = { generate_name(gen, set, META_JOIN) },
        .count = 1 };

    s->sets[set].join = join.names[0];
    for (int e = 0; e < plan->epoch_count; e++) {
        const int call = generate_call(gen, plan->epochs[e].last, &join);

        s->calls[call].waves = plan->epochs[e].joins;
    }
    if (s->finalizes) {
        const struct template last = {
            .names = { generate_name(gen, set, META_FINALIZE) }, .count = 1
        };
        const int call = generate_call(gen, s->wave_count - 1, &last);

        free(s->calls[call].roles);
        s->calls[call].roles = NULL;
        s->calls[call].waves = plan->leaves;
    } else {
        free(plan->leaves);
    }
}

static void make_waves(struct generator *gen)
{
    struct scenario *s = gen->scenario;
    const int waves = s->is_training
            ? s->iterations * s->parts
            : rng_range(&gen->rng, 1, s->ranks > 64 ? 3 : WAVES_MAX);

    s->wave_first = sim_alloc(SIM_WAVES_MAX + 2, sizeof *s->wave_first);
    s->wave_count = waves + 1;
    for (int set = 0; set < s->set_count; set++) {
        leave_plan_make(&gen->plans[set], s, &s->sets[set], &gen->rng);
    }
    if (s->is_training) {
        training_make_waves(gen);
    }
    for (int w = 0; w < waves && !s->is_training; w++) {
        make_wave(gen, w);
    }
    s->wave_first[waves] = s->call_count;
    s->leaves_first = s->call_count;
    s->wave_first[waves + 1] = s->call_count;
    for (int set = 0; set < s->set_count; set++) {
        add_leaves(gen, set);
    }
}

/* -------------------------------------------------------------- parameters */

static enum sim_mode choose_mode(struct rng *rng)
{
    static const enum sim_mode modes[20] = { MODE_LEGAL, MODE_LEGAL, MODE_LEGAL,
        MODE_LEGAL, MODE_LEGAL, MODE_LEGAL, MODE_LEGAL, MODE_ILLEGAL, MODE_ILLEGAL,
        MODE_ILLEGAL, MODE_ILLEGAL, MODE_ILLEGAL, MODE_ILLEGAL, MODE_ABSENT,
        MODE_ABSENT, MODE_ABSENT, MODE_KILL, MODE_KILL, MODE_INJECT, MODE_INJECT };

    return modes[rng_below(rng, 20)];
}

static void choose_parameters(struct generator *gen)
{
    static const int capacities[] = { 0, 1, 2, 5, 12, 1000 };
    static const int full[] = { 0, 0, 10, 60 };
    struct scenario *s = gen->scenario;
    struct rng *rng = &gen->rng;

    s->mode = choose_mode(rng);
    s->fanout = rng_range(rng, 2, rng_chance(rng, 60) ? 3 : 16);
    s->number_capacity = capacities[rng_below(rng, 6)];
    if (rng_chance(rng, 25)) {
        s->stall_ns = rng_range(rng, 2000, 40000);
    } else {
        s->stall_ns = 1000000000;
        s->stall_fail_ns = rng_chance(rng, 50) ? 5 * s->stall_ns : 0;
    }
    s->limits.batch_bytes = rng_chance(rng, 15) ? 0 : (size_t)rng_range(rng, 100, 4000);
    s->limits.tensor_bytes = (size_t)rng_range(rng, 10, 1000);
    s->step_weight = rng_range(rng, 1, 10);
    s->deliver_weight = rng_range(rng, 1, 10);
    s->turn_weight = rng_range(rng, 1, 10);
    s->tick_chance = rng_range(rng, 0, 10);
    s->cancel_chance = rng_chance(rng, 35) ? rng_range(rng, 1, 4) : 0;
    s->wait_chance = rng_range(rng, 0, 100);
    s->slow_chance = rng_chance(rng, 40) ? rng_range(rng, 50, 99) : 0;
    s->finalizes = s->mode != MODE_ABSENT || rng_chance(rng, 35);
    s->leaves_joined = rng_chance(rng, 30);
    gen->deviations_left = s->mode == MODE_ILLEGAL || s->mode == MODE_ABSENT
            ? rng_range(rng, 1, 3)
            : 0;
    gen->deviation_chance = 20;
    s->full_chance = full[rng_below(rng, 4)];
    s->look_weight = rng_range(rng, 1, 10);
    training_choose(gen);
}

struct scenario *scenario_create(uint64_t seed)
{
    struct generator gen = { .scenario = sim_alloc(1, sizeof *gen.scenario),
        .rng = rng_seeded(seed) };
    struct scenario *s = gen.scenario;

    s->seed = seed;
    s->ranks = world_size(&gen.rng, seed);
    choose_parameters(&gen);
    /* Apart from the other choices, so that seeds keep their meaning. */
    s->row_count_bytes_max = seed % 4 == 0 && !s->is_training ? seed % 1024 : SIZE_MAX;
    s->first_number = 1;
    if (seed % 25 == 9) {
        /* Some numbers fit on a board and others do not. */
        s->number_capacity = 64 * (BITS_BOARD_WORDS + 2);
        s->first_number = 64 * BITS_BOARD_WORDS - seed % 64;
    }
    make_sets(&gen);
    for (int set = 0; set < s->set_count; set++) {
        if (s->is_training) {
            training_make_templates(&gen, set);
        } else {
            make_templates(&gen, set);
        }
    }
    make_waves(&gen);
    return s;
}

void scenario_destroy(struct scenario *scenario)
{
    for (int i = 0; i < scenario->set_count; i++) {
        tree_shape_fini(&scenario->sets[i].shape);
        free(scenario->sets[i].ranks);
        free(scenario->sets[i].nodes);
        free(scenario->sets[i].member_of);
    }
    for (int i = 0; i < scenario->call_count; i++) {
        free(scenario->calls[i].roles);
        free(scenario->calls[i].waves);
    }
    free(scenario->names);
    free(scenario->items);
    free(scenario->calls);
    free(scenario->wave_first);
    free(scenario);
}
