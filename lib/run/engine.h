/*
 * The engine: progress takes submissions in, moves control messages, negotiates, plans,
 * launches and completes. It has no thread of its own: whoever drives it (run/driver.h)
 * calls engine_progress().
 */
#ifndef TUTTI_RUN_ENGINE_H
#define TUTTI_RUN_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "device/tickets.h"
#include "run/complete_device.h"
#include "run/messages.h"
#include "run/outcomes.h"

struct tutti;

/** What the engine remembers between passes; its own, but for what is atomic. */
struct engine {
    _Atomic uint32_t
            cancels_pending; /* 1: some operation has cancel_asked; any thread    */
    int64_t now_ns; /* taken once a pass                                              */
    int64_t next_tick_ns; /* when negotiators look for stalls                         */
    int64_t next_watch_ns; /* when to look whether batches move and peers live        */
    int64_t tick_limit_ns; /* look at least so often while driven; fixed              */
    int64_t stall_ns,
            stall_fail_ns; /* the parameters; fixed; 0: never                  */
    struct messages messages;
    struct forming forming; /* outcomes on their way to batches                       */
    struct tickets tickets; /* the launch order of device batches; run/order.h        */
    _Atomic uint32_t
            capturing; /* batches that are half in a CUDA graph; read by any thread */
    struct device_inflight inflight; /* what the device has still to do               */
};

/** One pass. Sets *moved when anything happened. A failure fails the context. */
void engine_progress(struct tutti *t, bool *moved);

/** Executes the actions of a process set's negotiator: negotiator_config.act. */
tutti_status engine_act(void *user);

/** True while a device is at work, which rings for nobody. Only for who drives. */
bool engine_must_poll(const struct tutti *t);
/** True when every message sent has left this rank. */
bool engine_is_flushed(const struct tutti *t);

#endif
