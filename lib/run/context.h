/*
 * The context: one rank's membership of a job. Everything hangs off it.
 *
 * Who may touch what
 *   fixed          set before the context is handed out, then read by anyone
 *   lock           guarded by `lock`; held for a few dozen instructions, never while
 *                  calling a transport, a backend or a callback. Operations of registered
 *                  tensors do without it (run/persistent.h)
 *   engine         touched only by the thread that drives the engine (run/driver.h)
 *   atomic         as its comment says
 */
#ifndef TUTTI_RUN_CONTEXT_H
#define TUTTI_RUN_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "base/forkmark.h"
#include "base/log.h"
#include "base/mem.h"
#include "observe/observer.h"
#include "ops/board.h"
#include "ops/device.h"
#include "run/dispatch.h"
#include "run/driver.h"
#include "run/engine.h"
#include "run/failure.h"
#include "run/group.h"
#include "run/intake.h"
#include "run/operation.h"
#include "run/output.h"
#include "run/process_set.h"
#include "topo/nodes.h"
#include "transport/transport.h"

/** Adds to a counter of one thread at a time, for those who wait for it. */
static inline void counter_publish(_Atomic uint64_t *counter, uint64_t value)
{
    const uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    /* Release: pairs with context_has_work(), for those that wait until nothing is left. */
    atomic_store_explicit(counter, before + value, memory_order_release);
}

/** What has ended here: written by the engine, on a cache line of its own. */
struct finished {
    _Atomic uint64_t
            count; /* operations that are final; the others of those that the intake
                               has counted are in flight                          */
    _Atomic uint64_t ok, failed, bytes; /* statistics                                 */
};

/** What was submitted, from the intake to its result. */
struct work {
    /* atomic, on cache lines of their own */
    struct intake intake; /* submitted, not yet seen by the engine                    */
    _Alignas(MEM_CACHE_LINE) struct finished finished;

    /* lock */
    _Alignas(MEM_CACHE_LINE) struct operation_table operations;
    struct groups groups; /* open groups of threads                                   */
};

/** Where the ranks are, and how they reach each other. Fixed. */
struct peers {
    struct nodes nodes;
    struct nodes caches; /* likewise, of the ranks that share a cache                 */
    struct transport transport;
    struct board board; /* of the ranks of this node, if there is one                 */
};

/** Who made the context. Fixed. */
struct origin {
    struct forkmark forkmark; /* a forked child may not use the context               */
    tutti_status (*release)(void *user, bool failed); /* called last; may be NULL    */
    void *user;
};

/* There is one: its fields are in an order for readers. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct tutti {
    struct work work;

    /* fixed */
    _Alignas(MEM_CACHE_LINE) int rank;
    int size;
    struct config config;
    struct log log;
    struct peers peers;
    struct origin origin;
    struct device device; /* this rank's GPU; zeroed: none                            */

    /* lock */
    pthread_mutex_t lock;
    bool closing; /* finalize was called: nothing more is accepted                    */
    struct process_sets sets; /* written by the engine under the lock                 */
    struct outputs outputs; /* memory that it hands out                               */

    /* as their headers say */
    struct failure failure;
    struct driver driver;
    struct observer observer;

    /* engine */
    struct engine engine;
    struct dispatcher dispatcher;
};

/** True while there are submissions that are not final, or something issued that has not
 * passed. */
static inline bool context_has_work(const struct tutti *t)
{
    /*
     * In this order: what ends in between makes the answer late, not wrong. Acquire: pairs
     * with complete.c. The count is sequentially consistent against that of waiters: see
     * driver_leave().
     */
    const uint64_t ended =
            atomic_load_explicit(&t->work.finished.count, memory_order_acquire);

    return atomic_load_explicit(&t->work.intake.count, memory_order_seq_cst) != ended ||
            complete_is_pending(&t->engine.inflight);
}

/** TUTTI_OK, or the status of a failed context with the thread's last error set. */
tutti_status context_check(struct tutti *t);
/**
 * After a submission: makes sure that some thread will look at it.
 * @param callbacks  of what was submitted: nobody can wait for these, so the background thread
 *                   does not leave them to waiters
 */
void context_notify(struct tutti *t, uint32_t callbacks);
/** TUTTI_OK if the calling thread may wait, else TUTTI_ERR_THREAD with the reason. */
tutti_status context_may_wait(struct tutti *t);

#endif
