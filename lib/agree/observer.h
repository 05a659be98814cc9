/*
 * The simulator's view into the negotiator and the tickets: which transitions ran, and
 * deliberate bugs, by which the simulator is tested. In the library both are constants and
 * vanish: they exist only in objects compiled with TUTTI_SIM=1.
 */
#ifndef TUTTI_AGREE_OBSERVER_H
#define TUTTI_AGREE_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "agree/negotiator.h"

#ifndef TUTTI_SIM
#    define TUTTI_SIM 0
#endif

enum transition {
#define TRANSITION(name) TRANSITION_##name,
#include "agree/transitions.def"
#undef TRANSITION
    TRANSITION_COUNT
};

/** Deliberate protocol bugs. */
enum planted_bug {
    BUG_NONE,
#define PLANTED_BUG(name, text) BUG_##name,
#include "agree/planted_bugs.def"
#undef PLANTED_BUG
    BUG_COUNT
};

struct observer {
    uint64_t seen[TRANSITION_COUNT];
    enum planted_bug planted;
};

static inline void observer_note(struct observer *observer, enum transition what)
{
#if TUTTI_SIM
    if (observer != NULL) {
        observer->seen[what]++;
    }
#else
    (void)observer;
    (void)what;
#endif
}

static inline bool observer_plants(
        const struct observer *observer, enum planted_bug bug)
{
#if TUTTI_SIM
    return observer != NULL && observer->planted == bug;
#else
    (void)observer;
    (void)bug;
    return false;
#endif
}

static inline void observe(const struct negotiator *negotiator, enum transition what)
{
    observer_note(negotiator->observer, what);
}

static inline bool has_bug(const struct negotiator *negotiator, enum planted_bug bug)
{
    return observer_plants(negotiator->observer, bug);
}

#endif
