/*
 * Where a rank's time went, as far back as it has recorded. Three things are known of each moment:
 * whether a thread of the program waits in tutti, whether a batch moves, and whether a batch that
 * this rank has submitted waits for other ranks.
 */
#include <stdio.h>

#include "tools/autopsy/autopsy.h"
#include "tools/autopsy/sweep.h"

enum fact {
    WAITS,
    MOVES,
    AGREES
};

static void add_event(
        struct sweep *sweep, const struct recording_of *recording, size_t at)
{
    const struct recorder_event *event = &recording->events[at];
    const int64_t ended_ns = recorded_end_ns(recording, at);
    const int64_t end_ns = ended_ns == 0 ? sweep->end_ns : ended_ns;

    if (event->kind == RECORDER_WAIT) {
        sweep_add(sweep, WAITS, event->time_ns, end_ns);
    } else if (event->kind == RECORDER_LAUNCHED) {
        sweep_add(sweep, MOVES, event->time_ns, end_ns);
        if (event->amount <= (uint64_t)event->time_ns) {
            sweep_add(sweep, AGREES, event->time_ns - (int64_t)event->amount,
                    event->time_ns);
        }
    }
}

/* Percent of a time. */
static double percent(int64_t ns, int64_t of_ns)
{
    return 100.0 * (double)ns / (double)of_ns;
}

static void describe(
        int64_t span_ns, const struct sweep_shares *shares, char *text, size_t capacity)
{
    const unsigned waits = 1U << WAITS;
    const unsigned moves = 1U << MOVES;
    const unsigned agrees = 1U << AGREES;

    (void)snprintf(text, capacity,
            "of %.3g s, %.0f %% outside tutti (batches moved in %.0f %%), %.0f %% in "
            "it "
            "while batches moved, %.0f %% in it for other ranks, %.0f %% in it "
            "otherwise",
            (double)span_ns / 1e9, percent(sweep_ns(shares, 0, waits), span_ns),
            percent(sweep_ns(shares, moves, waits), span_ns),
            percent(sweep_ns(shares, waits | moves, 0), span_ns),
            percent(sweep_ns(shares, waits | agrees, moves), span_ns),
            percent(sweep_ns(shares, waits, moves | agrees), span_ns));
}

bool autopsy_shares_text(
        const struct recording_of *recording, char *text, size_t capacity)
{
    const size_t count = recording->event_count;
    struct sweep_shares shares = { .ns = { 0 } };
    struct sweep sweep;
    int64_t begin_ns;
    int64_t end_ns;

    if (count == 0 ||
            recording->events[count - 1].time_ns <= recording->events[0].time_ns) {
        return false;
    }
    recording_window(recording, &begin_ns, &end_ns);
    /* A batch, and its agreement. */
    if (!sweep_init(&sweep, begin_ns, end_ns, 2 * count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        add_event(&sweep, recording, i);
    }
    sweep_run(&sweep, &begin_ns, 1, &shares);
    describe(end_ns - begin_ns, &shares, text, capacity);
    sweep_fini(&sweep);
    return true;
}
