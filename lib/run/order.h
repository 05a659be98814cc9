/*
 * The order in which the batches of device memory are launched: tickets (device/tickets.h)
 * between the engine, the transport and the backend.
 *
 * Where no backend needs it, any order will do. Engine only, unless said otherwise.
 */
#ifndef TUTTI_RUN_ORDER_H
#define TUTTI_RUN_ORDER_H

#include <stdbool.h>

#include <tutti/tutti.h>

struct batch;
struct process_set;
struct tutti;
struct operation;

/**
 * The sets that exist from the start are there.
 * @param has_met  the ranks of the world have met in the backend, on all of them
 */
void order_begin(struct tutti *t, bool has_met);
/*
 * Of batches that have an order: those of device memory, where tickets are used.
 */

/** A batch was queued: sees to it that it gets a ticket. */
void order_queued(struct tutti *t, const struct batch *batch);
/**
 * A set was created: its creation ends when its ticket has been used.
 * @return false: there is no order, and the creation ends at once
 */
bool order_created(
        struct tutti *t, struct process_set *set, struct operation *creation);
/** True when the first waiting batch of a set may be launched now. */
bool order_allows(const struct tutti *t, const struct batch *batch);
/** It was launched, or skipped. */
void order_use(struct tutti *t, const struct batch *batch);
/**
 * Where tickets are used: hands them on, and uses those that need no batch.
 * Errors: TUTTI_ERR_NO_MEMORY, those of the transport and of meet().
 */
tutti_status order_advance(struct tutti *t, bool *moved);
/** A set was removed; tells the backend, too. */
void order_removed(struct tutti *t, const struct process_set *set);
/** True when this rank must look for messages although it has submitted nothing. Any thread. */
bool order_is_on_duty(const struct tutti *t);
/** True when another rank may wait for this one to hand on a ticket. Any thread. */
bool order_is_owed(const struct tutti *t);

#endif
