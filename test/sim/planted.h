/*
 * Which bug is planted in the copies of the sources that sim_mutants links: test/sim/planted_bugs.
 */
#ifndef TUTTI_SIM_PLANTED_H
#define TUTTI_SIM_PLANTED_H

enum planted_bug {
    BUG_NONE,
#define PLANTED_BUG(name, text) BUG_##name,
#include "planted_bugs.def"
#undef PLANTED_BUG
    BUG_COUNT
};

extern enum planted_bug planted_bug;

#endif
