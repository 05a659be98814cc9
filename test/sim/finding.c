/*
 * What the simulator says: its findings, what happens in a verbose run, and the state of
 * a world in which something was found.
 */
#include <stdarg.h>
#include <stdio.h>

#include "world.h"

const char *check_name(enum check check)
{
    static const char *const names[CHECK_COUNT] = { [CHECK_NONE] = "none",
        [CHECK_STATUS] = "status",
        [CHECK_VALID] = "invariants",
        [CHECK_LOG] = "same log",
        [CHECK_AGREEMENT] = "agreement",
        [CHECK_VERDICT] = "verdict",
        [CHECK_ABSENT] = "absence",
        [CHECK_GROUP] = "group",
        [CHECK_BATCHES] = "batches",
        [CHECK_TEXT] = "error text",
        [CHECK_DEADLOCK] = "termination",
        [CHECK_STALL] = "stall report",
        [CHECK_BOUNDS] = "bounds",
        [CHECK_INJECTION] = "injection",
        [CHECK_SPOTS] = "spots",
        [CHECK_OPERANDS] = "operands",
        [CHECK_ORDER] = "launch order" };

    return names[check];
}

void world_fail(struct world *world, enum check check, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (world->check == CHECK_NONE) {
        world->check = check;
        world->stop = true;
        (void)vsnprintf(world->finding, sizeof world->finding, format, args);
    }
    va_end(args);
}

void world_log(const struct world *world, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (world->verbose) {
        (void)printf("%8lld ", (long long)world->events);
        (void)vprintf(format, args);
        (void)printf("\n");
    }
    va_end(args);
}

static void dump_rank(const struct world *world, int rank)
{
    const struct scenario *s = world->scenario;
    const struct sim_rank *r = &world->ranks[rank];

    (void)fprintf(stderr,
            "rank %d: wave %d of %d, call %d of %d, in flight %d%s:", rank, r->wave,
            s->wave_count, r->next, r->order_count, r->pending,
            r->dead ? ", dead" : "");
    for (int n = 0; n < s->name_count; n++) {
        const int member = s->sets[s->names[n].set].member_of[rank];

        if (member >= 0 && world->slots[n][member].pending) {
            (void)fprintf(stderr, " %d/%s \"%s\"", s->names[n].set,
                    meta_collective_name(s->names[n].collective), s->names[n].text);
        }
    }
    (void)fprintf(stderr, "\n");
}

void world_dump(const struct world *world)
{
    const struct scenario *s = world->scenario;

    (void)fprintf(stderr,
            "mode %s%s, %d ranks, %d sets, fanout %d, %d numbers, %d waves, %lld "
            "events\n",
            scenario_mode_name(s->mode), s->is_training ? ", training" : "", s->ranks,
            s->set_count, s->fanout, s->number_capacity, s->wave_count,
            (long long)world->events);
    for (int r = 0; r < s->ranks && r < 32; r++) {
        dump_rank(world, r);
    }
    for (int i = 0; i < world->network.busy_count && i < 32; i++) {
        const int link = world->network.busy[i];

        (void)fprintf(stderr, "under way: rank %d to rank %d\n", link / s->ranks,
                link % s->ranks);
    }
}
