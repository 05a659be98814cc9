/*
 * Work: one submitted operation, from submission until its request is consumed.
 *
 *   QUEUED -> ANNOUNCED -> AGREED -> RUNNING -> DONE      (any -> DONE on failure)
 *
 * An operation on device memory is ISSUED between RUNNING and DONE: its commands are on streams,
 * its name is free, and it is done when an event has passed (run/complete_device.h). One whose
 * stream is captured in a CUDA graph is DONE when it is in the graph.
 *
 * Operations live in slabs that neither move nor go before the context does, so a pointer
 * stays readable; the generation tells whether it still is the same operation. An operation belongs
 * to the pool, or to a registered tensor, which has it for life (run/persistent.h).
 */
#ifndef TUTTI_RUN_OPERATION_H
#define TUTTI_RUN_OPERATION_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "agree/negotiator.h"
#include "base/error.h"
#include "base/mem.h"
#include "observe/name.h"
#include "ops/op.h"

enum operation_state {
    OPERATION_FREE, /* in the pool                                                  */
    OPERATION_QUEUED, /* submitted, not yet seen by the engine (or in an open group)  */
    OPERATION_ANNOUNCED, /* with the negotiator                                          */
    OPERATION_AGREED, /* all ranks have it; in a batch that waits to be launched      */
    OPERATION_RUNNING, /* with a backend                                               */
    OPERATION_ISSUED, /* its commands are on streams of the device                    */
    OPERATION_DONE, /* final; waits to be consumed                                  */
    OPERATION_STATE_COUNT
};

struct tickets;
struct inflight;
struct process_set;

/** How far an operation is, for those who do not drive. */
enum operation_progress {
    OPERATION_PENDING, /* its name is in flight                                        */
    OPERATION_FINAL, /* done                                                         */
    OPERATION_PASSING /* issued: its name is free, its result is not there yet        */
};

/** The two low bits of a generation. Each use of an operation goes through them upwards. */
enum operation_phase {
    OPERATION_IDLE, /* not in use                                                   */
    OPERATION_WAITED, /* in use, and there is a request for it                        */
    OPERATION_SILENT, /* in use, and there is none                                    */
    OPERATION_CONSUMED, /* a thread is consuming the request                            */
    OPERATION_PHASE_MASK = 3
};

/** Memory of the caller that an operation may use: operation_lend(). */
struct lent {
    _Atomic(const char *) memory;
    _Atomic size_t bytes; /* 0: none */
};

/** What an operation reads and writes. */
struct operation_memory {
    const void *input; /* caller's, lent                                  */
    void *output; /* caller's, lent; or owned until it is taken      */
    size_t bytes; /* payload: of the input                           */
    struct lent lent[2]; /* input and output as submitted: they stay what they are */
    bool owns_output; /* the output is allocated here (run/output.h)    */
};

/** Parts of memory, of collectives on rows. */
struct operation_parts {
    struct op_part *list; /* owned; [set size] of the input, then of the output */
    size_t capacity;
    int members; /* so many for each side; the set may be gone when they are read */
};

/** What backs request.meta.dims. */
struct operation_numbers {
    int64_t *list; /* owned */
    size_t capacity;
};

/** What of an operation on device memory is on its streams. */
struct operation_device {
    tutti_stream stream; /* what was on it must be done                    */
    struct device_event *after; /* that point; a reference; NULL: nothing to wait for */
    struct inflight *issue; /* while ISSUED, and in its list; context's lock   */
    union {
        struct operation *before; /* in that list, over next; context's lock     */
        struct device_event *
                graph_end; /* CAPTURED, and done: the point behind it in the CUDA graph; a
                               reference; else NULL. See operation_is_in_graph()  */
    };
    _Atomic uint32_t
            demanded; /* 1: counted in tickets.demands; see operation_demand() */
};

struct operation_callback {
    tutti_callback call; /* NULL: there is a request to wait for            */
    void *user;
};

struct operation {
    _Alignas(MEM_CACHE_LINE) uint32_t index; /* in the table, fixed                 */
    _Atomic uint32_t
            generation; /* grows; its low bits are a operation_phase            */
    _Atomic uint64_t
            persistent; /* of the registration: see run/persistent.h           */
    _Atomic uint32_t done; /* operation_progress; pairs with the waiter's acquire  */
    _Atomic uint32_t
            state; /* operation_state; written by operation_advance() alone: engine,
                                    the submitter while QUEUED, the consumer after DONE.
                                    Others may read it: what the engine has not written
                                    says no more than that the operation is not its       */
    _Atomic uint32_t
            cancel_asked; /* the generation that tutti_cancel() meant; 0: none */
    tutti_status status; /* final status, valid once done                   */
    struct process_set *set;
    struct observed_name record; /* of the name                              */
    int64_t taken_ns; /* when the engine saw it                         */
    struct request request; /* what is negotiated; `tensor` is held in flight   */
    struct operation_numbers numbers;
    struct operation_parts parts;
    struct operation_memory memory;
    struct operation_device on_device;
    struct operation_callback callback;
    struct error *error; /* owned; NULL when status is TUTTI_OK             */
    struct operation *next; /* in the queue, a group, or a list of completions */
};

/** Slabs double in size, so that so many of them are more operations than anybody has. */
#define OPERATION_SLABS_MAX 20u

/** All operations of a context. Zeroed is valid. */
struct operation_table {
    _Atomic(struct operation *)
            slabs[OPERATION_SLABS_MAX]; /* owned; written under the lock    */
    _Atomic uint32_t slab_count; /* read by anyone; written under the lock            */
    struct operation *free; /* the pool, over next; under the context's lock   */
};

/**
 * An operation of the pool, idle; NULL when out of memory. Lock held, or the context is new. Goes
 * to operation_begin(), or back.
 */
struct operation *operation_take(struct operation_table *table);
/** Gives an idle operation to the pool. Lock held. */
void operation_put_back(struct operation_table *table, struct operation *operation);
/**
 * Opens an operation for a new operation, in state QUEUED. With a callback (may be NULL) there
 * is no request. Any thread: the one that has taken it or holds its persistent request.
 */
void operation_begin(struct operation *operation, tutti_callback callback, void *user);
/**
 * Closes it; its request becomes unknown. The caller consumed or withdraws the operation.
 * @return true when the operation is to be put back into the pool; else its registration has it
 *         again, and it must not be touched any more
 */
TUTTI_MUST_USE bool operation_end(struct operation *operation);
void operation_table_fini(struct operation_table *table);
/**
 * Walks operations, those that are not in use included: start with *position = 0; NULL at the
 * end. Those that are added meanwhile may be missed.
 */
struct operation *operation_next(
        const struct operation_table *table, uint32_t *position);
/** The operation of an index, or NULL. Any thread, no lock. */
struct operation *operation_at(const struct operation_table *table, uint64_t index);

static inline enum operation_state operation_state(const struct operation *operation)
{
    return (enum operation_state)atomic_load_explicit(
            &operation->state, memory_order_relaxed);
}

/** After operation_begin(): lends it memory, as its input (0) or its output (1). */
static inline void operation_lend(
        struct operation *operation, int which, const void *memory, size_t bytes)
{
    atomic_store_explicit(
            &operation->memory.lent[which].memory, memory, memory_order_relaxed);
    /* Pairs with operation_uses(). */
    atomic_store_explicit(&operation->memory.lent[which].bytes,
            memory == NULL ? 0 : bytes, memory_order_release);
}
/**
 * True when an operation that is not over was lent some of a range: its engine or other ranks
 * may read or write there. Lock held.
 */
bool operation_uses(
        const struct operation *operation, const char *memory, size_t bytes);

/** The public handle. */
static inline tutti_request operation_handle(const struct operation *operation)
{
    const uint32_t generation =
            atomic_load_explicit(&operation->generation, memory_order_relaxed);

    return (tutti_request)generation << 32 | ((tutti_request)operation->index + 1);
}
/**
 * The operation of a handle, or NULL when it is unknown or consumed. Any thread, no lock: the
 * operation stays what it is as long as nobody else consumes the request.
 */
struct operation *operation_find(
        const struct operation_table *table, tutti_request request);
/**
 * Makes the caller the only one that consumes a request that is done; false when it is
 * unknown or another thread was faster. Then operation_unclaim() or operation_end().
 */
bool operation_claim(struct operation *operation, tutti_request request);
/** The request is not consumed after all. */
void operation_unclaim(struct operation *operation);
/** Asks the engine to cancel the operation of a request. Lock held. */
void operation_ask_cancel(struct operation *operation, tutti_request request);
/** Engine: true, once, when that was asked of the operation that the operation is in now. */
bool operation_take_cancel(struct operation *operation);
/** True when an operation is final. Any thread. */
static inline bool operation_is_done(const struct operation *operation)
{
    /* Pairs with the release in complete.c: results are visible once done is. */
    return atomic_load_explicit(&operation->done, memory_order_acquire) ==
            OPERATION_FINAL;
}
/** True when an operation is final, or issued on the device. Any thread. */
static inline bool operation_is_issued(const struct operation *operation)
{
    /* Pairs with the releases in complete_device.c and complete.c. */
    return atomic_load_explicit(&operation->done, memory_order_acquire) !=
            OPERATION_PENDING;
}
/** True when it is done, and in a CUDA graph. */
static inline bool operation_is_in_graph(const struct operation *operation)
{
    return operation->request.meta.space == OP_CAPTURED &&
            operation->on_device.graph_end != NULL;
}

/** True when its memory is the device's. Any thread, while the request is not consumed. */
static inline bool operation_is_on_device(const struct operation *operation)
{
    return op_memory(operation->request.meta.space) == OP_DEVICE;
}
/** True when an operation is of this request, and nobody is consuming it. Any thread. */
static inline bool operation_is_of(
        const struct operation *operation, tutti_request request)
{
    /* Acquire: with operation_end(), of whoever consumes it. */
    return atomic_load_explicit(&operation->generation, memory_order_acquire) ==
            (uint32_t)(request >> 32);
}
/** True when the handle's operation is final or no longer exists. Any thread, no lock. */
static inline bool operation_is_over(
        const struct operation *operation, tutti_request request)
{
    return !operation_is_of(operation, request) || operation_is_done(operation);
}

/** As operation_is_over(), or issued on the device. */
bool operation_is_over_or_issued(
        const struct operation *operation, tutti_request request);

/**
 * Any thread: the operation is waited for, so with issue=caller batches are launched until it is
 * issued. Until operation_satisfied(); on the host it asks for nothing.
 */
void operation_demand(struct operation *operation, struct tickets *tickets);
/** It is issued or over, or nobody waits for it any more. Any thread. */
void operation_satisfied(struct operation *operation, struct tickets *tickets);

/** Sets how an operation ends; error (may be NULL) is taken. Engine. */
static inline void operation_set_result(
        struct operation *operation, tutti_status status, struct error *error)
{
    operation->status = status;
    operation->error = error;
}

#define OPERATION_TEXT 320 /* of an operation in words; longer names are cut */
/** Writes an operation that is not over in words: allreduce "layer2" of step 40. */
void operation_text(const struct operation *operation, char *text, size_t capacity);

/** For each state, a bit for each that may follow. */
extern const unsigned operation_transitions[OPERATION_STATE_COUNT];

/** The only writer of `state`. */
static inline void operation_advance(
        struct operation *operation, enum operation_state to)
{
    assert((operation_transitions[operation_state(operation)] & (1u << to)) != 0);
    /* Relaxed: whoever hands an operation on publishes it by other means. */
    atomic_store_explicit(&operation->state, to, memory_order_relaxed);
}

#endif
