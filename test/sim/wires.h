/*
 * The data plane of plans that ride: what each member of a set launches on each lane, and
 * the first messages between each two of them.
 *
 * A message does not say what it is about. It is matched by its lane and by the sequence
 * number of its batch modulo the window, in the order in which it was sent, as by a tag.
 * What its sender meant is kept beside it, and must be what its receiver expects.
 */
#ifndef TUTTI_SIM_WIRES_H
#define TUTTI_SIM_WIRES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/negotiator.h"

struct world;
struct sim_member;
struct plan;
struct slot;
struct sim_wires;

/** Wires for a set of `members` members, with `window` batches of a lane in flight. */
struct sim_wires *sim_wires_create(int members, int window);
void sim_wires_destroy(struct sim_wires *wires);

/** negotiator_config.rides: some plans of reductions, the same at all members. */
bool wires_let_ride(void *user, const struct plan *plan);

/* What the engine does with the negotiator's wishes. */

/** ACTION_BEGIN; `cookies` are its bytes. */
void wires_begin(struct world *world, struct sim_member *member,
        const struct action *action, const uint8_t *cookies);
/** ACTION_WALK. */
void wires_walk(
        struct world *world, struct sim_member *member, const struct action *action);
/** A batch of a plan is agreed: `count` outcomes. */
void wires_agree(struct world *world, struct sim_member *member,
        const struct outcome *outcomes, size_t count);
/** The memory of a submission that ends must be lent to nothing. */
void wires_check_returned(struct world *world, const struct slot *slot);

/* Events. */

/** Something launches, arrives or ends at a rank, or its engine looks; false: nothing. */
bool world_wire(struct world *world, int rank);
/** True when a rank has data to move although nothing is submitted. */
bool wires_move(const struct world *world, int rank);
/** The same events at a rank that sleeps; when all is over. */
bool world_wire_asleep(struct world *world, int rank);
/** Checks wires at which nothing moves any more: all has been received and has ended. */
void wires_finish(struct world *world, int set);

#endif
