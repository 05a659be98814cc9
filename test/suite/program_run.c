/*
 * Running random programs.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/gpu.h"
#include "test/suite/program.h"

enum {
    FLIGHTS_MAX = PROGRAM_UNITS_MAX * PROGRAM_MEMBERS_MAX
};

/** One operation of the phase that runs. */
struct step {
    struct flight flight;
    tutti_tensor tensor; /* 0: submitted by name */
};

/** A program on its way through one rank. */
struct runner {
    tutti *t;
    struct checks *c;
    const struct program *program;
    struct crew crews[PROGRAM_SETS_MAX];
    uint64_t choices; /* of this rank; counts up */
    struct step steps[PROGRAM_UNITS_MAX][PROGRAM_MEMBERS_MAX];
};

/* This rank's own choice: 0 to limit - 1. */
static int choose(struct runner *r, int limit)
{
    const uint64_t key = r->program->seed * 1000 + (uint64_t)r->c->rank;

    return (int)(pattern_mix(key, r->choices++) % (uint64_t)limit);
}

/* -------------------------------------------------------------------- sets */

/* One at a time, or the last one by a split, as all ranks choose alike. */
static void make_sets(struct runner *r)
{
    for (int s = 0; s < r->program->set_count; s++) {
        const struct program_set *set = &r->program->sets[s];
        struct crew *crew = &r->crews[s];

        *crew = (struct crew){ .world = set->ranks, .size = set->size, .index = -1 };
        for (int i = 0; i < set->size; i++) {
            crew->index = set->ranks[i] == r->c->rank ? i : crew->index;
        }
        if (s > 0) {
            EXPECT_OK(r->c,
                    tutti_process_set_create(r->t, set->ranks, set->size, &crew->set));
        }
    }
}

static void remove_sets(struct runner *r)
{
    for (int s = r->program->set_count - 1; s > 0; s--) {
        EXPECT_OK(r->c, tutti_process_set_destroy(r->t, r->crews[s].set));
    }
}

/* ------------------------------------------------------------------- phases */

/* By name, or by a registration made for it. */
static void submit(struct runner *r, struct step *step, int unit, int member)
{
    char name[32];

    (void)snprintf(name, sizeof name, "unit %d, member %d", unit, member);
    step->tensor = 0;
    if (choose(r, 4) == 0) {
        EXPECT_OK(r->c, flight_register(r->t, &step->flight, name, &step->tensor));
        EXPECT_OK(r->c, flight_submit_registered(r->t, &step->flight, step->tensor));
    } else {
        EXPECT_OK(r->c, flight_submit(r->t, &step->flight, name));
    }
}

static void submit_unit(struct runner *r, const struct program_phase *phase, int u)
{
    const struct program_unit *unit = &phase->units[u];
    const struct crew *crew = &r->crews[unit->set];
    const bool grouped = unit->count > 1;
    int order[PROGRAM_MEMBERS_MAX];

    if (crew->index < 0) {
        return;
    }
    pattern_shuffle(order, unit->count, (uint64_t)choose(r, 1 << 20));
    if (grouped) {
        EXPECT_OK(r->c, tutti_group_begin(r->t));
    }
    for (int i = 0; i < unit->count; i++) {
        struct step *step = &r->steps[u][order[i]];

        flight_prepare(&step->flight, &unit->operations[order[i]], crew);
        submit(r, step, u, order[i]);
    }
    if (grouped) {
        EXPECT_OK(r->c, tutti_group_end(r->t));
    }
}

/* Looks at something that was submitted, without waiting for it. */
static void look(struct runner *r, struct step *step)
{
    const tutti_status status = choose(r, 2) == 0
            ? tutti_test(r->t, &step->flight.request)
            : tutti_wait(r->t, &step->flight.request, (int64_t)choose(r, 2) * 20000);

    EXPECT(r->c,
            status == TUTTI_OK || status == TUTTI_AGAIN || status == TUTTI_ERR_TIMEOUT);
}

static void end(struct runner *r, struct step *step)
{
    while (choose(r, 3) == 0) {
        look(r, step);
        (void)sched_yield();
    }
    flight_end(r->t, r->c, &step->flight);
    if (step->tensor != 0) {
        EXPECT_OK(r->c, tutti_tensor_unregister(r->t, step->tensor));
    }
}

/* This rank is a member of the unit's set. */
static bool is_mine(const struct runner *r, const struct program_phase *phase, int u)
{
    return r->crews[phase->units[u].set].index >= 0;
}

static void run_units(struct runner *r, const struct program_phase *phase)
{
    int order[FLIGHTS_MAX];

    pattern_shuffle(order, phase->unit_count, (uint64_t)choose(r, 1 << 20));
    for (int i = 0; i < phase->unit_count; i++) {
        const int u = order[choose(r, i + 1)];

        submit_unit(r, phase, order[i]);
        if (is_mine(r, phase, u) && choose(r, 4) == 0) {
            look(r, &r->steps[u][0]);
        }
    }
    pattern_shuffle(order, FLIGHTS_MAX, (uint64_t)choose(r, 1 << 20));
    for (int i = 0; i < FLIGHTS_MAX; i++) {
        const int u = order[i] / PROGRAM_MEMBERS_MAX;
        const int k = order[i] % PROGRAM_MEMBERS_MAX;

        if (u < phase->unit_count && k < phase->units[u].count &&
                is_mine(r, phase, u)) {
            end(r, &r->steps[u][k]);
        }
    }
}

/* -------------------------------------------------------------------- joins */

static void take_step(struct runner *r, const struct program_join *join, int s)
{
    bool absent[PROGRAM_RANKS_MAX];
    struct crew crew = r->crews[join->set];
    struct step step = { 0 };
    char name[32];

    for (int i = 0; i < crew.size; i++) {
        absent[i] = join->steps[i] <= s;
    }
    crew.absent = absent;
    (void)snprintf(name, sizeof name, "step %d", s);
    flight_begin(r->t, r->c, &step.flight, &join->operations[s], &crew, name);
    end(r, &step);
}

static void check_last(struct runner *r, const struct program_join *join, int last)
{
    const int size = r->crews[join->set].size;

    if (EXPECT(r->c, last >= 0 && last < size)) {
        for (int i = 0; i < size; i++) {
            EXPECT(r->c, join->steps[i] <= join->steps[last]);
        }
    }
}

static void run_join(struct runner *r, const struct program_join *join)
{
    const struct crew *crew = &r->crews[join->set];
    tutti_options options;
    int last = -1;

    if (crew->index < 0) {
        return;
    }
    for (int s = 0; s < join->steps[crew->index]; s++) {
        take_step(r, join, s);
    }
    tutti_options_default(&options);
    options.process_set = crew->set;
    EXPECT_OK(r->c, tutti_join(r->t, &options, &last));
    check_last(r, join, last);
}

void program_run(tutti *t, struct checks *c, const struct program *program)
{
    struct runner *r = must_alloc(1, sizeof *r);

    r->t = t;
    r->c = c;
    r->program = program;
    suite_gpu_toss_from(program->seed * 1000 + (uint64_t)c->rank);
    make_sets(r);
    for (int i = 0; i < program->phase_count; i++) {
        run_units(r, &program->phases[i]);
        if (program->phases[i].join.set >= 0) {
            run_join(r, &program->phases[i].join);
        }
    }
    remove_sets(r);
    free(r);
}
