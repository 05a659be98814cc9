/*
 * The order in which the batches of device memory are launched: tickets (device/tickets.h)
 * between the engine, the transport and the backend.
 *
 * Off where no backend needs it. Engine only, unless said otherwise.
 */
#ifndef TUTTI_DEVICE_ORDER_H
#define TUTTI_DEVICE_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

struct batch;
struct process_set;
struct tutti;
struct operation;

/** True when device batches are launched in order at all: fixed. */
bool order_is_on(const struct tutti *t);
/** The sets that exist from the start are there. */
void order_begin(struct tutti *t);
/** A batch was queued: sees to it that it gets a ticket. */
void order_queued(struct tutti *t, const struct batch *batch);
/**
 * A set was created: its creation ends when its ticket has been used.
 * @return false: there is no order, and the creation ends at once
 */
bool order_created(
        struct tutti *t, struct process_set *set, struct operation *creation);
/** True when the first waiting batch of a lane may be launched now. */
bool order_allows(const struct tutti *t, const struct batch *batch);
/** It was launched, or skipped. */
void order_use(struct tutti *t, const struct batch *batch);
/**
 * Hands tickets on, and uses those that need no batch.
 * Errors: TUTTI_ERR_NO_MEMORY, those of the transport and of meet().
 */
tutti_status order_advance(struct tutti *t, bool *moved);
/** A set was removed; tells the backend, too. */
void order_removed(struct tutti *t, const struct process_set *set);
/** The body of a message of kind ENVELOPE_ORDER or ENVELOPE_ASK. */
tutti_status order_receive(
        struct tutti *t, int from, bool is_question, const void *bytes, size_t len);
/** True when this rank must look for messages although it has submitted nothing. Any thread. */
bool order_is_on_duty(const struct tutti *t);
/** True when another rank may wait for this one to hand on a ticket. Any thread. */
bool order_is_owed(const struct tutti *t);
/** All there is is waited for, from now on: by finalize. */
void order_demand_all(struct tutti *t);
void order_fini(struct tutti *t);

#endif
