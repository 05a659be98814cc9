/*
 * Training programs: the same names in every iteration, in an order of each rank's own, and
 * what now and then is not the same. An iteration is one wave or two.
 */
#include "generator.h"

enum {
    ITERATIONS_MIN = 5,
    ITERATIONS_MAX = 40
};

void training_choose(struct generator *gen)
{
    struct scenario *s = gen->scenario;
    struct rng *rng = &gen->rng;

    s->is_training = s->ranks <= 16 && rng_chance(rng, 35);
    if (!s->is_training) {
        return;
    }
    s->iterations = rng_range(rng, ITERATIONS_MIN, ITERATIONS_MAX);
    s->number_capacity = rng_chance(rng, 65) ? 1000 : rng_range(rng, 1, 8);
    s->parts = rng_chance(rng, 30) ? 2 : 1;
    s->training = (struct sim_training){
        .one_offs = rng_chance(rng, 30) ? rng_range(rng, 5, 100) : 0,
        .changes = rng_chance(rng, 30) ? rng_range(rng, 1, 5) : 0,
        .joins = s->mode != MODE_ABSENT && rng_chance(rng, 25) ? rng_range(rng, 1, 8)
                                                               : 0,
        .left_out = rng_chance(rng, 20) ? rng_range(rng, 1, 5) : 0,
        .shapes = rng_chance(rng, 25) ? 2 : 1,
        .evaluates = rng_chance(rng, 25),
    };
    s->cancel_chance = s->cancel_chance > 0 && rng_chance(rng, 50) ? 1 : 0;
    s->cancel_seldom = true;
    if (s->stall_ns > 100000) {
        s->stall_ns = INT64_C(1000000000000);
        s->stall_fail_ns = s->stall_fail_ns > 0 ? 5 * s->stall_ns : 0;
    }
    gen->deviation_chance = 1;
}

/* ------------------------------------------------------------------- names */

static void choose_use(struct generator *gen, struct template *template)
{
    const struct scenario *s = gen->scenario;
    struct rng *rng = &gen->rng;

    template->every = 1;
    template->shape = -1;
    template->until = s->iterations;
    template->every = rng_chance(rng, 10) ? rng_range(rng, 2, 5) : 1;
    if (s->training.shapes > 1 && rng_chance(rng, 60)) {
        template->shape = rng_below(rng, s->training.shapes);
    }
    template->part = rng_below(rng, s->parts);
    template->until =
            rng_chance(rng, 10) ? rng_range(rng, 1, s->iterations) : s->iterations;
    template->evaluates = s->training.evaluates &&rng_chance(rng, 30);
}

void training_make_templates(struct generator *gen, int set)
{
    struct rng *rng = &gen->rng;
    const int count = rng_range(rng, 1, TEMPLATES_MAX);

    for (int t = 0; t < count; t++) {
        struct template *template = &gen->templates[set][t];

        template->grouped = rng_chance(rng, 20);
        template->count = template->grouped ? rng_range(rng, 1, SIM_GROUP_MAX) : 1;
        choose_use(gen, template);
        for (int i = 0; i < template->count; i++) {
            template->names[i] = rng_chance(rng, 60)
                    ? generate_name(gen, set, TUTTI_ALLREDUCE)
                    : generate_tensor(gen, set);
        }
    }
    gen->template_counts[set] = count;
}

/* ------------------------------------------------------------------- waves */

/* In a third of the iterations in the middle it is evaluated what was trained. */
static bool is_evaluation(const struct scenario *s, int iteration)
{
    return s->training.evaluates && iteration >= s->iterations / 3 &&
            iteration < 2 * s->iterations / 3 && iteration % 7 < 3;
}

static bool is_made(const struct generator *gen, const struct template *template,
        int iteration, int part)
{
    const struct scenario *s = gen->scenario;
    const int shape = s->training.shapes > 1 ? iteration / 2 % s->training.shapes : 0;

    return template->part == part && iteration < template->until &&
            iteration % template->every == template->every - 1 &&
            (template->shape < 0 || template->shape == shape) &&
            template->evaluates == is_evaluation(s, iteration) &&
            template_is_usable(gen, template);
}

/* The same tensor with other metadata from now on. */
static void change_something(struct generator *gen, const struct template *template)
{
    struct sim_name *name = &gen->scenario->names[template->names[0]];

    name->meta.count += rng_chance(&gen->rng, 50) ? 1 : 0;
    name->phase += rng_chance(&gen->rng, 25) ? 1 : 0;
}

/* Once, its tensors are in no group; or a single one is a group of its own. */
static void regroup(struct generator *gen, int wave, const struct template *template)
{
    for (int i = 0; i < template->count; i++) {
        const struct template alone = {
            .names = { template->names[i] }, .count = 1, .grouped = !template->grouped
        };

        (void)generate_call(gen, wave, &alone);
    }
}

/* Once, it is in a group with another one. */
static bool join_groups(struct generator *gen, int wave,
        const struct template *template, const struct template *other)
{
    struct template both = *template;

    if (template->grouped || other->grouped) {
        return false;
    }
    both.names[both.count++] = other->names[0];
    both.grouped = true;
    (void)generate_call(gen, wave, &both);
    return true;
}

/* What fails with another group than it has a number for may leave something behind. */
static bool may_regroup(const struct scenario *s, int set)
{
    return s->mode != MODE_ILLEGAL && s->mode != MODE_ABSENT && s->cancel_chance == 0 &&
            !s->sets[set].joins;
}

/* Makes the call of a template, and now and then in another way. */
static int make_call_of(struct generator *gen, int set, int iteration, int part, int t)
{
    const struct scenario *s = gen->scenario;
    const struct template *template = &gen->templates[set][t];
    const int wave = iteration * s->parts + part;
    const bool has_next = t + 1 < gen->template_counts[set] &&
            is_made(gen, &template[1], iteration, part);

    if (!rng_chance(&gen->rng, s->training.changes)) {
        generate_deviation(gen, generate_call(gen, wave, template));
        return 1;
    }
    change_something(gen, template);
    if (!may_regroup(s, set)) {
        generate_deviation(gen, generate_call(gen, wave, template));
        return 1;
    }
    if (has_next && rng_chance(&gen->rng, 40) &&
            join_groups(gen, wave, template, &template[1])) {
        return 2;
    }
    if (rng_chance(&gen->rng, 50)) {
        regroup(gen, wave, template);
    } else {
        generate_deviation(gen, generate_call(gen, wave, template));
    }
    return 1;
}

static void make_part(struct generator *gen, int set, int iteration, int part)
{
    const struct scenario *s = gen->scenario;
    const int wave = iteration * s->parts + part;
    int t = 0;

    while (t < gen->template_counts[set]) {
        if (!is_made(gen, &gen->templates[set][t], iteration, part) ||
                rng_chance(&gen->rng, s->training.left_out)) {
            t++;
        } else {
            t += make_call_of(gen, set, iteration, part, t);
        }
    }
    if (rng_chance(&gen->rng, s->training.one_offs)) {
        const struct template alone = {
            .names = { generate_name(gen, set, TUTTI_ALLREDUCE) }, .count = 1
        };

        generate_deviation(gen, generate_call(gen, wave, &alone));
    }
}

void training_make_waves(struct generator *gen)
{
    struct scenario *s = gen->scenario;

    for (int i = 0; i < s->iterations; i++) {
        for (int p = 0; p < s->parts; p++) {
            const int wave = i * s->parts + p;

            s->wave_first[wave] = s->call_count;
            for (int set = 0; set < s->set_count; set++) {
                if (!gen->plans[set].silent[wave]) {
                    make_part(gen, set, i, p);
                }
            }
        }
    }
}
