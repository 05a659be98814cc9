/*
 * The scheduler: which event happens next.
 */
#ifndef TUTTI_SIM_SCHEDULE_H
#define TUTTI_SIM_SCHEDULE_H

#include "world.h"

/** Runs the world until nothing moves any more. */
void schedule_run(struct world *world);
/** As schedule_run(), but no application goes on, and all messages arrive. */
void schedule_settle(struct world *world);
/** Delivers what sleeping ranks have not read, as if all woke up. */
void schedule_wake_all(struct world *world);

#endif
