/*
 * Vector clocks: every stream is an actor with a component of its own, and so is the host.
 * a happened before b when b's clock has seen a's time: what the host, an event, a
 * synchronisation or the order of a stream carries from one to the other.
 *
 * All host threads are one actor: they hand work to each other under locks that the simulator
 * does not see. ThreadSanitizer finds races among them.
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

static void clock_widen(struct clock *clock, uint32_t count)
{
    if (count <= clock->count) {
        return;
    }
    clock->times = realloc(clock->times, count * sizeof *clock->times);
    memset(clock->times + clock->count, 0,
            (count - clock->count) * sizeof *clock->times);
    clock->count = count;
}

uint64_t clock_time(const struct clock *clock, uint32_t actor)
{
    return actor < clock->count ? clock->times[actor] : 0;
}

void clock_tick(struct clock *clock, uint32_t actor)
{
    clock_widen(clock, actor + 1);
    clock->times[actor]++;
}

void clock_join(struct clock *into, const struct clock *from)
{
    clock_widen(into, from->count);
    for (uint32_t i = 0; i < from->count; i++) {
        if (from->times[i] > into->times[i]) {
            into->times[i] = from->times[i];
        }
    }
}

struct clock clock_copy(const struct clock *clock)
{
    struct clock copy = { .times = NULL };

    clock_join(&copy, clock);
    return copy;
}

void clock_fini(struct clock *clock)
{
    free(clock->times);
    *clock = (struct clock){ .times = NULL };
}
