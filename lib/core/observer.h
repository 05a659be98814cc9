/*
 * The simulator's view into the negotiator: which transitions ran, and deliberate bugs
 * that prove the simulator would find such. In the library both are constants and vanish:
 * the planted bugs exist only in objects compiled with TUTTI_SIM=1.
 */
#ifndef TUTTI_CORE_OBSERVER_H
#define TUTTI_CORE_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/negotiator.h"

#ifndef TUTTI_SIM
#    define TUTTI_SIM 0
#endif

enum transition {
#define TRANSITION(name) TRANSITION_##name,
#include "core/transitions.def"
#undef TRANSITION
    TRANSITION_COUNT
};

/** Deliberate protocol bugs. */
enum planted_bug {
    BUG_NONE,
#define PLANTED_BUG(name, text) BUG_##name,
#include "core/planted_bugs.def"
#undef PLANTED_BUG
    BUG_COUNT
};

struct observer {
    uint64_t seen[TRANSITION_COUNT];
    enum planted_bug planted;
};

static inline void observe(const struct negotiator *negotiator, enum transition what)
{
#if TUTTI_SIM
    if (negotiator->observer != NULL) {
        negotiator->observer->seen[what]++;
    }
#else
    (void)negotiator;
    (void)what;
#endif
}

static inline bool has_bug(const struct negotiator *negotiator, enum planted_bug bug)
{
#if TUTTI_SIM
    return negotiator->observer != NULL && negotiator->observer->planted == bug;
#else
    (void)negotiator;
    (void)bug;
    return false;
#endif
}

#endif
