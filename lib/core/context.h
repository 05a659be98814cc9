/*
 * The context: one rank's membership of a job. Everything hangs off it.
 *
 * Who may touch what
 *   fixed          set before the context is handed out, then read by anyone
 *   lock           guarded by `lock`; held for a few dozen instructions, never while
 *                  calling a transport, a backend or a callback. Operations of registered
 *                  tensors do without it (core/lease.h)
 *   engine         touched only by the thread that drives the engine (core/driver.h)
 *   atomic         as its comment says
 */
#ifndef TUTTI_CORE_CONTEXT_H
#define TUTTI_CORE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "base/cpu.h"
#include "base/doorbell.h"
#include "base/error.h"
#include "base/forkmark.h"
#include "base/log.h"
#include "base/map.h"
#include "base/notice.h"
#include "control/control.h"
#include "core/crew.h"
#include "core/dispatcher.h"
#include "core/group.h"
#include "core/intake.h"
#include "core/issues.h"
#include "core/memory.h"
#include "core/order.h"
#include "core/planner.h"
#include "core/process_set.h"
#include "core/ready.h"
#include "core/work.h"
#include "ops/board.h"
#include "ops/device.h"
#include "topo/machine.h"
#include "topo/nodes.h"

/** Counted by the engine, read by anyone. */
struct engine_counters {
    _Atomic uint64_t batches;
    _Atomic uint64_t by_number;
    _Atomic uint64_t by_name;
    _Atomic uint64_t messages;
    _Atomic uint64_t message_bytes;
    _Atomic uint64_t stalls;
    _Atomic uint64_t planned;
    _Atomic uint64_t planned_steps;
    _Atomic uint64_t slow_steps;
    _Atomic uint64_t poisons;
    _Atomic uint64_t wait_ns; /* counted by the waiting threads */
    _Atomic uint64_t device_batches;
    _Atomic uint64_t device_staged;
};

static inline void counter_add(_Atomic uint64_t *counter, uint64_t value)
{
    (void)atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

static inline uint64_t counter_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/** A message for a set this rank has not created yet. */
struct early_message {
    struct early_message *next;
    tutti_process_set set;
    int from;
    size_t len;
    uint8_t bytes[];
};

/* There is one: its fields are in an order for readers. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct tutti {
    /* atomic, on cache lines of their own */
    struct intake intake; /* submitted, not yet seen by the engine             */
    _Alignas(MEM_CACHE_LINE) _Atomic uint64_t ended; /* works that are final; the others
                                    of those that the intake has counted are in flight */
    _Atomic uint64_t completed, failed_works,
            bytes; /* statistics, of the engine       */

    /* fixed */
    int rank, size;
    struct config config;
    struct log log;
    struct nodes nodes;
    struct nodes caches; /* likewise, of the ranks that share a cache            */
    struct control control;
    struct planner_limits limits;
    struct memory memory; /* for outputs and fusion buffers                      */
    struct device device; /* this rank's GPU; zeroed: none                       */
    struct board board; /* words that ranks show each other, if there is one   */
    struct forkmark forkmark; /* a forked child may not use the context             */
    struct notice notice; /* where tuttirun says why the job failed; zeroed: nowhere */
    bool any_thread; /* any thread may drive; else only `owner`              */
    bool has_background; /* `background` runs                                    */
    pthread_t owner; /* the thread that created the context                  */
    pthread_t background;
    void (*release)(void *user, bool failed); /* called last; may be NULL            */
    void *release_user;

    /* lock */
    pthread_mutex_t lock;
    struct work_table works;
    struct process_sets sets; /* written by the engine under the lock               */
    struct groups groups; /* open groups of threads                               */
    struct map allocations[OP_SPACE_COUNT]; /* see core/output.h                   */
    struct error failure; /* first cause; status OK while the context lives       */
    bool closing; /* finalize was called: nothing more is accepted        */

    /* atomic */
    _Atomic uint32_t cancels_pending; /* 1: some work has cancel_asked              */
    _Atomic uint32_t driving; /* 1: some thread drives the engine                 */
    _Atomic uint32_t waiters; /* threads inside a waiting call                    */
    _Atomic uint32_t stopping; /* 1: the background thread shall end               */
    _Atomic uint32_t failed; /* 1: `failure` is set                              */
    _Atomic uint32_t failure_told; /* 1: the others know of the failure */
    _Atomic uint32_t lingers; /* 1: see failure_lingers(); written by the engine  */
    _Atomic uint32_t unsent; /* 1: messages have not left this rank; by who drives */
    _Atomic uintptr_t calling_back; /* thread inside a callback, 0: none            */
    struct engine_counters counters;

    struct doorbell *bell; /* the driving thread sleeps here; fixed            */
    struct doorbell own_bell; /* it, unless the transport's ranks share theirs    */
    struct doorbell done_bell; /* waiting threads that do not drive sleep here     */
    struct doorbell park_bell; /* the background thread, when it has nothing to do */
    struct issues issues; /* works on the device; its header says who may what   */
    struct op_device_counts device_counts; /* of the GPU backend                   */
    struct crew crew; /* threads that wait beside the driver and help it  */

    /* engine */
    int64_t now_ns; /* taken once a turn                                */
    int64_t poked_ns; /* when somebody last asked whether something is done */
    int64_t next_tick_ns; /* when negotiators look for stalls                 */
    int64_t next_watch_ns; /* when backends look whether peers live           */
    int64_t tick_limit_ns; /* look at least so often while driven; fixed       */
    struct dispatcher dispatcher;
    struct order order; /* in which device batches are launched                 */
    struct planner planner;
    struct planner_item *items; /* scratch of the planner; owned                    */
    struct ready_work *ready; /* scratch: the works of `items`; owned             */
    struct batch **batches; /* scratch: of one turn; owned                      */
    size_t item_capacity, ready_capacity, batch_capacity;
    struct wire_writer envelope; /* scratch: a control message                      */
    struct early_message *early; /* oldest first; owned                             */
    struct cpu_load load; /* of the thread that drives                        */
    tutti_status delivery; /* of the messages of the current poll              */
};

/** What it takes to make a context; what is moved in belongs to it from then on. */
struct context_spec {
    struct config config; /* moved                                              */
    struct log log;
    int rank, size;
    struct nodes nodes; /* moved                                              */
    struct nodes
            caches; /* moved; groups of ranks of a node that share a cache, or all of
                            a node; empty where nobody asks                     */
    char cache_id[MACHINE_CACHE_TEXT_MAX]; /* of this rank's cache; "": none  */
    struct control control; /* moved                                              */
    struct planner_limits limits;
    size_t chunk_bytes;
    struct memory memory;
    bool expects_gpus; /* for start-up: a rank of the job may have one         */
    struct device device; /* zeroed: none; what is behind it outlives the context */
    struct board board; /* zeroed: none; what is behind it outlives the context */
    struct doorbell *bell; /* NULL, or one that outlives the context: peers ring it */
    struct notice notice; /* zeroed: no tuttirun; closed by the context         */
    bool any_thread; /* the transports may be called from any thread       */
    const struct op_backend *backends[DISPATCHER_BACKENDS_MAX]; /* best first       */
    void *natives[DISPATCHER_BACKENDS_MAX];
    int backend_count;
    /* Called last, also when starting fails; in a failed job messages may be under way. */
    void (*release)(void *user, bool failed);
    void *release_user;
};

/**
 * Makes a context and starts its background thread. Takes over what spec moves, in any
 * case.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM (no thread), errors of open()
 */
tutti_status context_create(struct tutti **created, struct context_spec *spec);
/** Frees a spec that was not given to context_create(). */
void context_spec_fini(struct context_spec *spec);
/** Stops threads and frees everything; no collective. */
void context_destroy(struct tutti *t);

/** True while there are submissions that are not final, or something issued that has not
 * passed. */
bool context_has_work(const struct tutti *t);

/** TUTTI_OK, or the status of a failed context with the thread's last error set. */
tutti_status context_check(struct tutti *t);

#endif
