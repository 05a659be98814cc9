/*
 * Who drives the engine: whoever waits; the background thread when nobody does.
 *
 * One thread at a time drives. A waiting thread that finds the engine free drives it until
 * what it waits for is over; other waiting threads sleep, and take over when it leaves. The background thread drives while operations are
 * in flight and no thread waits, and parks otherwise, so that an idle job costs nothing. While
 * the thread that submitted last sleeps it drives as a waiter does; while that one computes,
 * and no core is free, it stands back.
 *
 * A driver with nothing to do spins while a core is free, yields for a moment, and then
 * sleeps: on the doorbell when the transport rings it, else for 1/16 of the time it has
 * waited so far (50 us to 1 ms), because MPI only moves when it is polled.
 */
#ifndef TUTTI_RUN_DRIVER_H
#define TUTTI_RUN_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/cpu.h"
#include "base/doorbell.h"

struct tutti;

/** Who drives, and where threads sleep. Atomic, or as it says. */
struct driver {
    /* fixed */
    bool any_thread; /* any thread may drive; else only `owner`                       */
    bool has_background; /* `background` runs                                         */
    pthread_t owner; /* the thread that created the context                           */
    pthread_t background;
    struct doorbell *bell; /* the driving thread sleeps here                          */

    _Atomic uint32_t driving; /* 1: some thread drives the engine                     */
    _Atomic uint32_t waiters; /* threads inside a waiting call                        */
    _Atomic uint32_t stopping; /* 1: the background thread shall end                  */
    _Atomic uint32_t unsent; /* 1: messages have not left this rank; by who drives    */
    _Atomic uintptr_t calling_back; /* thread inside a callback, 0: none              */
    _Atomic int32_t
            submitter; /* thread that submitted last while nobody waited; 0: none */
    _Atomic uint64_t calls_due; /* callbacks of what was submitted                    */
    _Atomic uint64_t calls; /* those that have run; by who drives                     */
    struct doorbell own_bell; /* `bell`, unless the transport's ranks share theirs    */
    struct doorbell done_bell; /* waiting threads that do not drive sleep here        */
    struct doorbell park_bell; /* the background thread, when it has nothing to do    */
    struct doorbell rest_bell; /* the same while it leaves submissions to who waits   */

    /* of the thread that drives */
    struct cpu_load load;
};

/** Tells whether what is waited for is over. Cheap; called between passes. */
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
/** One pass, if no other thread drives. */
void driver_poke(struct tutti *t);

/**
 * Calls `what` when no other thread drives, and keeps the engine meanwhile.
 * @return false: this thread may never drive
 */
bool driver_borrow(
        struct tutti *t, void (*what)(struct tutti *t, void *arg), void *arg);

/** Starts the background thread. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
tutti_status driver_start_background(struct tutti *t);
/** Ends it; no-op when it does not run. */
void driver_stop_background(struct tutti *t);

#endif
