/*
 * Who drives the engine: whoever waits; the background thread when nobody does.
 *
 * One thread at a time drives. A waiting thread that finds the engine free drives it until
 * what it waits for is over; other waiting threads help it to reduce (core/crew.h) or
 * sleep, and take over when it leaves. The background thread drives while operations are
 * in flight and no thread waits, and parks otherwise, so that an idle job costs nothing.
 *
 * A driver with nothing to do spins while a core is free, yields for a moment, and then
 * sleeps: on the doorbell when the transport rings it, else for 1/16 of the time it has
 * waited so far (50 us to 1 ms), because MPI only moves when it is polled.
 */
#ifndef TUTTI_CORE_DRIVER_H
#define TUTTI_CORE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

struct tutti;

/** Tells whether what is waited for is over. Cheap; called between turns. */
typedef bool (*driver_over)(void *what);

/** Announces a waiter, so that submissions need not wake the background thread. */
void driver_enter(struct tutti *t);
/** Ends that; hands the engine to others if operations are still in flight. */
void driver_leave(struct tutti *t);
/**
 * Between enter and leave: waits until `over` or the deadline (clock_ns(), INT64_MAX:
 * none).
 */
void driver_wait(struct tutti *t, driver_over over, void *what, int64_t deadline_ns);
/** One turn, if no other thread drives. */
void driver_poke(struct tutti *t);
/** After a submission: makes sure somebody will look at it. */
void driver_notify(struct tutti *t);

/** Starts the background thread. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
tutti_status driver_start_background(struct tutti *t);
/** Ends it; no-op when it does not run. */
void driver_stop_background(struct tutti *t);

/** TUTTI_OK if the calling thread may wait, else TUTTI_ERR_THREAD with the reason. */
tutti_status driver_may_wait(struct tutti *t);

#endif
