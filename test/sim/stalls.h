/*
 * Stall reports of a world in which nothing moves any more.
 */
#ifndef TUTTI_SIM_STALLS_H
#define TUTTI_SIM_STALLS_H

#include "world.h"

/** Lets time pass until everything is reported, and checks what the reports say. */
void stalls_check(struct world *world);

#endif
