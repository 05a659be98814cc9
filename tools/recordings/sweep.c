/*
 * Sorts the boundaries of facts, and adds up the time between them.
 */
#include "tools/recordings/sweep.h"

#include <stdlib.h>

#include "base/mem.h"

/* A fact begins or ends. */
struct sweep_boundary {
    int64_t time_ns;
    unsigned fact;
    int change; /* 1, -1 */
};

bool sweep_init(struct sweep *sweep, int64_t begin_ns, int64_t end_ns, size_t spans)
{
    *sweep = (struct sweep){
        .begin_ns = begin_ns, .end_ns = end_ns, .capacity = 2 * spans
    };
    sweep->boundaries = mem_calloc(2 * spans + 1, sizeof *sweep->boundaries);
    return sweep->boundaries != NULL;
}

void sweep_fini(struct sweep *sweep)
{
    mem_free(sweep->boundaries);
    *sweep = (struct sweep){ .boundaries = NULL };
}

void sweep_add(struct sweep *sweep, unsigned fact, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns < sweep->begin_ns) {
        begin_ns = sweep->begin_ns;
    }
    if (begin_ns < end_ns && sweep->count + 2 <= sweep->capacity) {
        sweep->boundaries[sweep->count++] =
                (struct sweep_boundary){ begin_ns, fact, 1 };
        sweep->boundaries[sweep->count++] = (struct sweep_boundary){ end_ns, fact, -1 };
    }
}

static int compare_boundaries(const void *a, const void *b)
{
    const struct sweep_boundary *x = a;
    const struct sweep_boundary *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* The time between two boundaries, in the periods in which it lies; returns the last of them. */
static size_t add_time(const int64_t *cuts, size_t count, size_t at,
        const int64_t times[2], struct sweep_shares *shares, unsigned facts)
{
    int64_t now = times[0];

    while (at < count && now < times[1]) {
        const int64_t end = at + 1 < count ? cuts[at + 1] : INT64_MAX;
        const int64_t next = times[1] < end ? times[1] : end;

        if (now < cuts[at]) {
            now = cuts[at] < times[1] ? cuts[at] : times[1];
            continue;
        }
        if (next > now) {
            shares[at].ns[facts] += next - now;
            now = next;
        }
        at += now >= end ? 1 : 0;
    }
    return at;
}

void sweep_run(struct sweep *sweep, const int64_t *cuts, size_t count,
        struct sweep_shares *shares)
{
    int held[SWEEP_FACTS] = { 0 };
    int64_t times[2] = { sweep->begin_ns, 0 };
    size_t at = 0;

    qsort(sweep->boundaries, sweep->count, sizeof *sweep->boundaries,
            compare_boundaries);
    for (size_t i = 0; i <= sweep->count; i++) {
        const struct sweep_boundary *boundary = &sweep->boundaries[i];
        unsigned facts = 0;

        times[1] = i < sweep->count && boundary->time_ns < sweep->end_ns
                ? boundary->time_ns
                : sweep->end_ns;
        for (unsigned f = 0; f < SWEEP_FACTS; f++) {
            facts |= held[f] > 0 ? 1U << f : 0;
        }
        at = add_time(cuts, count, at, times, shares, facts);
        times[0] = times[1];
        if (i < sweep->count) {
            held[boundary->fact] += boundary->change;
        }
    }
}

int64_t sweep_ns(const struct sweep_shares *shares, unsigned held, unsigned not_held)
{
    int64_t ns = 0;

    for (unsigned facts = 0; facts < 1U << SWEEP_FACTS; facts++) {
        if ((facts & held) == held && (facts & not_held) == 0) {
            ns += shares->ns[facts];
        }
    }
    return ns;
}
