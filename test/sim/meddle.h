/*
 * What may go wrong around the protocol: cancellations, a rank that vanishes, and messages
 * that are repeated or damaged.
 */
#ifndef TUTTI_SIM_MEDDLE_H
#define TUTTI_SIM_MEDDLE_H

#include "world.h"

/** Between two events: something may happen. */
void meddle(struct world *world);
/** Delivers a message, intact or not. */
void meddle_deliver(struct world *world, struct message *message);

#endif
