/*
 * Making random programs.
 */
#include "test/suite/program.h"

#include <string.h>

/** Numbers in a row, from a seed. */
struct source {
    uint64_t seed;
    uint64_t count;
};

static uint64_t next(struct source *source)
{
    return pattern_mix(source->seed, source->count++);
}

/* 0 to below - 1. */
static int below(struct source *source, int limit)
{
    return (int)(next(source) % (uint64_t)limit);
}

static void make_sets(struct program *p, struct source *source)
{
    int order[PROGRAM_RANKS_MAX];

    p->set_count = 1 + below(source, PROGRAM_SETS_MAX);
    for (int s = 0; s < p->set_count; s++) {
        struct program_set *set = &p->sets[s];

        pattern_shuffle(order, p->world, next(source));
        set->size = s == 0 ? p->world : 1 + below(source, p->world);
        for (int i = 0; i < set->size; i++) {
            set->ranks[i] = s == 0 ? i : order[i];
        }
    }
}

/*
 * Half of the phases repeat what the one before did, so that names keep their numbers; but
 * with other contents.
 */
static void make_units(struct program *p, struct program_phase *phase,
        const struct program_phase *before, struct source *source)
{
    phase->unit_count = 1 + below(source, PROGRAM_UNITS_MAX);
    for (int u = 0; u < phase->unit_count; u++) {
        struct program_unit *unit = &phase->units[u];

        unit->set = below(source, p->set_count);
        unit->count =
                below(source, 3) == 0 ? 1 + below(source, PROGRAM_MEMBERS_MAX) : 1;
        for (int i = 0; i < unit->count; i++) {
            unit->operations[i] =
                    operation_random(p->sets[unit->set].size, next(source));
        }
    }
    if (before != NULL && below(source, 2) == 0) {
        phase->unit_count = before->unit_count;
        memcpy(phase->units, before->units, sizeof phase->units);
        for (int u = 0; u < phase->unit_count; u++) {
            struct operation *first = &phase->units[u].operations[0];

            /* Salts choose parts, too: only where these are equal nothing else changes. */
            first->pattern.salt += first->form == FORM_EQUAL ? 1 : 0;
        }
    }
}

/* A step's reduction takes place where somebody takes it; a root must be one of those. */
static struct operation make_step(const struct program_join *join,
        const struct program_set *set, struct source *source)
{
    struct operation o;
    int most = 0;

    do {
        o = operation_random(set->size, next(source));
    } while (!operation_reduces(&o));
    for (int i = 0; i < set->size; i++) {
        most = join->steps[i] > join->steps[most] ? i : most;
    }
    o.root = most;
    return o;
}

static void make_join(
        const struct program *p, struct program_join *join, struct source *source)
{
    const struct program_set *set;

    join->set = below(source, 3) == 0 ? below(source, p->set_count) : -1;
    if (join->set < 0) {
        return;
    }
    set = &p->sets[join->set];
    for (int i = 0; i < set->size; i++) {
        join->steps[i] = below(source, PROGRAM_STEPS_MAX + 1);
    }
    for (int s = 0; s < PROGRAM_STEPS_MAX; s++) {
        join->operations[s] = make_step(join, set, source);
    }
}

void program_make(struct program *p, uint64_t seed, int world)
{
    struct source source = { .seed = seed };

    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->world = world;
    make_sets(p, &source);
    p->phase_count = 1 + below(&source, PROGRAM_PHASES_MAX);
    for (int i = 0; i < p->phase_count; i++) {
        make_units(p, &p->phases[i], i > 0 ? &p->phases[i - 1] : NULL, &source);
        make_join(p, &p->phases[i].join, &source);
    }
}
