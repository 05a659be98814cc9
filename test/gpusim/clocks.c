/*
 * Vector clocks: every stream is an actor with a component of its own, the host is one, too.
 * a happened before b when b's clock has seen a's time: what a host thread, an event, a
 * synchronisation or the order of a stream carries from one to the other.
 *
 * All host threads are one actor: they hand work to each other under locks that the simulator
 * does not see. ThreadSanitizer finds races among them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

enum {
    TEXT_BUCKETS = 1024,
    /* A new user of an actor counts as ordered after the old one, which it need not be: so
     * each rests until many others came after it. */
    ACTORS_AT_REST = 64
};

struct text {
    struct text *next;
    char characters[];
};

/* An actor that nobody uses, and when its last user stopped. */
struct rest {
    uint32_t actor;
    uint64_t time;
};

static struct {
    struct rest *rests;
    size_t rest_count, rest_capacity;
    uint32_t actors;
    struct text *texts[TEXT_BUCKETS];
    struct host process;
    bool process_ready;
} clocks;

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

void clock_set(struct clock *clock, uint32_t actor, uint64_t time)
{
    clock_widen(clock, actor + 1);
    clock->times[actor] = time;
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

uint32_t actor_take(uint64_t *time)
{
    if (clocks.rest_count > ACTORS_AT_REST) {
        struct rest oldest = clocks.rests[0];

        clocks.rest_count--;
        memmove(clocks.rests, clocks.rests + 1, clocks.rest_count * sizeof oldest);
        *time = oldest.time;
        return oldest.actor;
    }
    *time = 0;
    return clocks.actors++;
}

void actor_give_back(uint32_t actor, uint64_t time)
{
    if (clocks.rest_count == clocks.rest_capacity) {
        clocks.rest_capacity = 2 * clocks.rest_capacity + 16;
        clocks.rests =
                realloc(clocks.rests, clocks.rest_capacity * sizeof *clocks.rests);
    }
    clocks.rests[clocks.rest_count++] = (struct rest){ .actor = actor, .time = time };
}

static void host_init(struct host *host, const char *name)
{
    uint64_t time;

    host->actor = actor_take(&time);
    clock_set(&host->clock, host->actor, time);
    clock_tick(&host->clock, host->actor);
    (void)snprintf(host->name, sizeof host->name, "%s", name);
}

struct host *host_self(void)
{
    if (!clocks.process_ready) {
        clocks.process_ready = true;
        host_init(&clocks.process, "host");
    }
    return &clocks.process;
}

const char *intern(const char *text)
{
    size_t bytes = strlen(text) + 1;
    uint32_t hash = 2166136261U;
    struct text **bucket, *known;

    for (const char *c = text; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    }
    bucket = &clocks.texts[hash % TEXT_BUCKETS];
    for (known = *bucket; known != NULL; known = known->next) {
        if (strcmp(known->characters, text) == 0) {
            return known->characters;
        }
    }
    known = malloc(sizeof *known + bytes);
    memcpy(known->characters, text, bytes);
    known->next = *bucket;
    *bucket = known;
    return known->characters;
}
