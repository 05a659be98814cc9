/*
 * The oracle: what must be true of outcomes, independent of the negotiator.
 */
#ifndef TUTTI_SIM_ORACLE_H
#define TUTTI_SIM_ORACLE_H

#include "world.h"

/** Checks and books all outcomes that a negotiator holds. */
void oracle_take(struct world *world, struct sim_member *member);
/** Checks a run in which nothing moves any more. */
void oracle_finish(struct world *world);
/** Checks what an error says about a mismatch. */
void oracle_check_text(
        struct world *world, const struct sim_item *item, const char *text);
/** Checks that an error names those that joined or finalized. */
void oracle_check_parted(
        struct world *world, const struct sim_item *item, const struct error *error);
/** True when the rank may wait for a submission in the middle of its program. */
bool oracle_allows_waiting(const struct world *world, const struct slot *slot);
/** True when a submission is certain to end. */
bool oracle_awaits(const struct world *world, const struct slot *slot);

#endif
