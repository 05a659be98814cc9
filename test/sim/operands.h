/*
 * Operands that come with direct arrivals, as the run room would keep them.
 */
#ifndef TUTTI_SIM_OPERANDS_H
#define TUTTI_SIM_OPERANDS_H

#include "agree/negotiator.h"

struct sim_member;
struct world;

/** negotiator_config.carry and keep; `user` is the member. */
void operands_carry(void *user, const struct plan *plan, const struct plan_batch *batch,
        struct wire_writer *out);
tutti_status operands_keep(
        void *user, const struct carried_key *key, const uint8_t *bytes, size_t len);
/** A batch commits: takes what came for it. */
void operands_take(
        struct world *world, struct sim_member *member, const struct outcome *outcome);

#endif
