/*
 * Batches: tensors that are launched together. Engine only.
 *
 *     SPARE -> FORMING -> WAITING -> LAUNCHED -> RUNNING -> SPARE
 *
 * A batch of device memory that no backend takes goes through host memory (run/stage.h):
 *
 *     LAUNCHED -> FETCHING -> LAUNCHED (on the host) -> RUNNING -> RETURNING -> SPARE
 *
 * One whose sizes are not known tells them over the host first (run/sizes.h):
 *
 *     LAUNCHED -> RUNNING (sizes) -> LAUNCHED -> RUNNING -> SPARE
 *
 * One that would have to be part of a CUDA graph and cannot goes from LAUNCHED to SPARE. After a
 * failure what is launched becomes CANCELLED.
 */
#ifndef TUTTI_RUN_BATCH_H
#define TUTTI_RUN_BATCH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/device.h"
#include "ops/op.h"

struct bitset;
struct dispatcher;
struct dispatcher_backend;
struct process_set;
struct tutti;
struct operation;

enum batch_state {
    BATCH_SPARE, /* to be used again                                            */
    BATCH_FORMING, /* operations are added                                           */
    BATCH_WAITING, /* in the queue of its set                                   */
    BATCH_LAUNCHED, /* it has its number in the set; no backend has begun yet   */
    BATCH_FETCHING, /* inputs are on their way to the host                      */
    BATCH_RUNNING, /* with a backend                                            */
    BATCH_RETURNING, /* outputs are on their way to the device; the operations are issued, the
                        set goes on, and the batch only keeps the host's memory */
    BATCH_CANCELLED, /* kept until backends are closed, which may write into its buffer */
    BATCH_STATE_COUNT
};

/** A tensor of a staged batch: its memory on the device, and its copy on the host. */
struct staged {
    const void *input; /* the caller's; NULL: none                               */
    size_t input_bytes;
    void *output; /* the caller's, or the request's; NULL: none, or not yet      */
    size_t output_bytes; /* where they are known                                 */
    void *host_input, *host_output; /* owned; NULL: none; may be the same        */
};

/** What goes through the host: for each operation its tensor, and room for copies. */
struct staging {
    struct staged *tensors; /* owned                                                */
    size_t count, capacity;
    struct device_copy *copies; /* owned; scratch                                    */
    size_t copy_capacity;
};

/** A fusion buffer. */
struct fusion_buffer {
    void *memory; /* owned; NULL: none                                     */
    size_t bytes;
    uint32_t set; /* the process set that has it                          */
};

/** When things happened to a batch. */
struct batch_times {
    int64_t agreed_ns; /* all ranks had agreed on it                           */
    int64_t begun_ns; /* it was launched                                        */
    int64_t ended_ns; /* its backend has ended it                              */
    int64_t moved_ns; /* something of it has moved last, or it was launched     */
    int64_t told_ns; /* it was told that it stands still; 0: never              */
};

/** Written by observe() alone. */
struct batch_observed {
    uint64_t range; /* of a profiler                                            */
    int64_t reduced_ns; /* how long its reductions took; 0: nobody asks              */
};

/** The members of the set, without those that have joined. */
struct batch_members {
    struct op_set set; /* as a set of their own; places != NULL                */
    int *places; /* by their place in the set of the batch; NULL: none has joined */
    int *ranks; /* owned; backs places and set.world_ranks                  */
    int capacity;
};

/** Parts of a packed reducescatter. */
struct batch_parts {
    struct op_part *list; /* owned                                            */
    size_t capacity;
};

/** What the members of a device batch tell each other first. */
struct batch_sizes {
    bool are_asked; /* op of the batch asks for them                             */
    struct op_batch op; /* meanwhile, what it was before                         */
    struct op_run run; /* of the question                                       */
    uint64_t *
            table; /* owned; bytes given, then got: of each member for each operation */
    size_t capacity;
};

/** Operations that are launched together. */
struct batch {
    enum batch_state state; /* written by batch_advance() alone                     */
    struct process_set *set; /* it may be gone while RETURNING                      */
    struct operation **
            operations; /* owned; operation_count of them, in the order of the log; none:
                            this rank has joined, and only counts the batch    */
    size_t operation_count, operation_capacity;
    int priority; /* the largest of its operations                             */
    struct batch_times time;
    struct batch_observed observed;
    enum op_space space; /* where its tensors lie                                */
    struct op_run *runs; /* owned; as many as operations; what the backend sees  */
    struct batch_parts parts;
    struct op_batch op;
    uint8_t *operands; /* owned; see op_batch.operands                             */
    struct batch_members present;
    struct fusion_buffer buffer; /* when the operations were packed                   */

    /* In device memory: */
    struct device_event *
            *events; /* owned; room for one of each operation; borrowed events  */
    struct device_event
            *issued; /* when it is done; or, staged, the last copies       */
    struct staging staging;

    const struct dispatcher_backend *backend; /* while RUNNING                       */
    void *task; /* owned; task_bytes of the largest backend           */
    struct tutti *context;
    struct batch *next;
    struct batch_sizes sizes; /* of one in device memory; large, so the last      */
};

/** True from when its inputs are fetched to the host. */
static inline bool batch_is_staged(const struct batch *batch)
{
    return batch->staging.count > 0;
}

/** For each state, a bit for each that may follow. */
extern const unsigned batch_transitions[BATCH_STATE_COUNT];

/** The only writer of `state`. */
static inline void batch_advance(struct batch *batch, enum batch_state to)
{
    assert((batch_transitions[batch->state] & (1u << to)) != 0);
    batch->state = to;
}

/** An empty batch of a set; NULL when out of memory. */
struct batch *batch_new(struct tutti *t, struct process_set *set);
/** Adds an operation to it; false when out of memory. */
bool batch_add(struct dispatcher *dispatcher, struct batch *batch,
        struct operation *operation);
/** Leaves out members of the set; NULL: none. False when out of memory. */
bool batch_without(struct batch *batch, const struct bitset *absent);
/** Room for parts in a batch; NULL when out of memory. */
struct op_part *batch_parts(struct batch *batch, size_t count);
/** Gives the host memory of a staged batch back, and the event of its copies. */
void batch_unstage(struct batch *batch);
/** It is over: gives back what it holds, but for its fusion buffer, and becomes SPARE. */
void batch_put_back(struct dispatcher *dispatcher, struct batch *batch);
/** Frees batches (a list over next), without their fusion buffers. */
void batch_free_all(struct batch *batches);

#endif
