/*
 * Where a rank's time went, as far back as it has recorded. Three things are known of each moment:
 * whether a thread of the program waits in tutti, whether a batch moves, and whether a batch that
 * this rank has submitted waits for other ranks. Moments are swept from boundary to boundary.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "launcher/autopsy/autopsy.h"

enum fact {
    WAITS,
    MOVES,
    AGREES,
    FACTS
};

/* A fact begins or ends. */
struct boundary {
    int64_t time_ns;
    enum fact fact;
    int change; /* 1, -1 */
};

struct sweep {
    struct boundary *boundaries; /* owned */
    size_t count;
    int64_t begin_ns, end_ns; /* of the recording */
    int64_t ns[1 << FACTS]; /* time in which just these facts held */
};

static int compare_boundaries(const void *a, const void *b)
{
    const struct boundary *x = a;
    const struct boundary *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void add(struct sweep *sweep, enum fact fact, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns < sweep->begin_ns) {
        begin_ns = sweep->begin_ns;
    }
    if (begin_ns < end_ns) {
        sweep->boundaries[sweep->count++] = (struct boundary){ begin_ns, fact, 1 };
        sweep->boundaries[sweep->count++] = (struct boundary){ end_ns, fact, -1 };
    }
}

static void add_event(
        struct sweep *sweep, const struct recording_of *recording, size_t at)
{
    const struct recorder_event *event = &recording->events[at];
    const int64_t ended_ns = recorded_end_ns(recording, at);
    const int64_t end_ns = ended_ns == 0 ? sweep->end_ns : ended_ns;

    if (event->kind == RECORDER_WAIT) {
        add(sweep, WAITS, event->time_ns, end_ns);
    } else if (event->kind == RECORDER_LAUNCHED) {
        add(sweep, MOVES, event->time_ns, end_ns);
        if (event->amount <= (uint64_t)event->time_ns) {
            add(sweep, AGREES, event->time_ns - (int64_t)event->amount, event->time_ns);
        }
    }
}

static void run(struct sweep *sweep)
{
    int held[FACTS] = { 0 };
    int64_t now = sweep->begin_ns;

    qsort(sweep->boundaries, sweep->count, sizeof *sweep->boundaries,
            compare_boundaries);
    for (size_t i = 0; i <= sweep->count; i++) {
        const struct boundary *boundary = &sweep->boundaries[i];
        const int64_t next = i < sweep->count ? boundary->time_ns : sweep->end_ns;
        unsigned facts = 0;

        for (unsigned f = 0; f < FACTS; f++) {
            facts |= held[f] > 0 ? 1U << f : 0;
        }
        sweep->ns[facts] += next - now;
        now = next;
        if (i < sweep->count) {
            held[boundary->fact] += boundary->change;
        }
    }
}

/* Percent of the time in which these facts held, and those did not. */
static double share(const struct sweep *sweep, unsigned held, unsigned not_held)
{
    int64_t ns = 0;

    for (unsigned facts = 0; facts < 1U << FACTS; facts++) {
        if ((facts & held) == held && (facts & not_held) == 0) {
            ns += sweep->ns[facts];
        }
    }
    return 100.0 * (double)ns / (double)(sweep->end_ns - sweep->begin_ns);
}

static void say(const struct sweep *sweep, char *text, size_t capacity)
{
    const unsigned waits = 1U << WAITS;
    const unsigned moves = 1U << MOVES;
    const unsigned agrees = 1U << AGREES;

    (void)snprintf(text, capacity,
            "of %.3g s, %.0f %% outside tutti (batches moved in %.0f %%), %.0f %% in "
            "it "
            "while batches moved, %.0f %% in it for other ranks, %.0f %% in it "
            "otherwise",
            (double)(sweep->end_ns - sweep->begin_ns) / 1e9, share(sweep, 0, waits),
            share(sweep, moves, waits), share(sweep, waits | moves, 0),
            share(sweep, waits | agrees, moves), share(sweep, waits, moves | agrees));
}

bool autopsy_shares_text(
        const struct recording_of *recording, char *text, size_t capacity)
{
    const size_t count = recording->event_count;
    struct sweep sweep = { .count = 0 };

    if (count == 0 ||
            recording->events[count - 1].time_ns <= recording->events[0].time_ns) {
        return false;
    }
    sweep.begin_ns = recording->events[0].time_ns;
    for (size_t i = 0; i < count;
            i++) { /* threads write, so times are not quite in order */
        const int64_t at = recording->events[i].time_ns;

        sweep.begin_ns = at < sweep.begin_ns ? at : sweep.begin_ns;
        sweep.end_ns = at > sweep.end_ns ? at : sweep.end_ns;
    }
    /* a wait, or a batch and its agreement */
    sweep.boundaries = mem_calloc(4 * count, sizeof *sweep.boundaries);
    if (sweep.boundaries == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        add_event(&sweep, recording, i);
    }
    run(&sweep);
    say(&sweep, text, capacity);
    mem_free(sweep.boundaries);
    return true;
}
