/*
 * The dispatcher: launches agreed batches on backends, in the order of each lane of a set,
 * with a window of batches in flight for each lane, and steps them until they are final.
 * Lanes do not wait for each other. Engine only.
 */
#ifndef TUTTI_CORE_DISPATCHER_H
#define TUTTI_CORE_DISPATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "core/staging.h"
#include "ops/device.h"
#include "ops/op.h"

struct memory;
struct tutti;
struct work;
struct process_set;
struct bitset;

/** A backend that is open on all ranks. */
struct dispatcher_backend {
    const struct op_backend *ops;
    struct op_env env; /* what it was opened with, and keeps using */
    void *state;
};

/** Most backends of one context. */
#define DISPATCHER_BACKENDS_MAX 8

/** Fusion buffers that are kept for the next batches. */
#define DISPATCHER_BUFFERS_MAX 8

struct fusion_buffer {
    void *memory; /* owned */
    size_t bytes;
};

/** How a batch is launched. */
enum launch {
    LAUNCH_AGREED, /* all ranks are known to be there                             */
    LAUNCH_RIDING, /* it rides: they say so by taking part                        */
    LAUNCH_WALK /* without works, to end what others may have begun            */
};

/** Works that are launched together. */
struct batch {
    struct process_set *set; /* NULL: removed, while results go back to the device  */
    uint32_t lane; /* of the set; below OP_LANES                         */
    struct work **works; /* owned; work_count of them, in order of the lane    */
    size_t work_count, work_capacity;
    int priority; /* the largest of its works                             */
    int64_t timed_ns; /* when it was begun, if it is timed; else 0            */
    bool skipped; /* this rank has joined: it only counts the batch      */
    enum op_space space; /* where its tensors lie                                */
    enum launch launch;
    uint64_t index; /* in the epoch of its plan; where it rides or walks  */
    struct op_run *runs; /* owned; as many; what the backend sees              */
    struct op_part *parts; /* owned; of a packed reducescatter                   */
    size_t part_capacity;
    struct op_batch op;

    /* When members of the set have joined, the others: */
    struct op_set others; /* as a set of their own; set_ranks != NULL            */
    int *set_ranks; /* its members by their place in `set`; else NULL      */
    int *ranks; /* owned; backs set_ranks and others.world_ranks       */
    int rank_capacity;

    /* In device memory: */
    struct device_mark **marks; /* owned; room for one of each work; borrowed marks  */
    struct device_mark *issued; /* when it is done; or, staged, the last copies       */
    enum staging_stage stage;
    struct staged_work *staged; /* owned; staged_count of them, one for each work     */
    struct device_copy *copies; /* owned; scratch                                     */
    size_t staged_count, staged_capacity, copy_capacity;

    const struct dispatcher_backend *backend;
    void *buffer; /* fusion buffer, when the works were packed; owned   */
    size_t buffer_bytes; /* its size                                           */
    void *task; /* owned; task_bytes of the largest backend           */
    struct tutti *context;
    struct batch *next;
};

/** Zeroed is valid. */
struct dispatcher {
    const struct memory
            *memory; /* for fusion buffers; fixed                          */
    struct dispatcher_backend backends[DISPATCHER_BACKENDS_MAX]; /* best first       */
    int backend_count;
    size_t task_bytes; /* largest of the backends                            */
    size_t works_max; /* room of the batch with most: what others grow to   */
    struct batch *running; /* over next                                          */
    struct batch *spare; /* over next                                          */
    struct batch *cancelled; /* over next; kept until the backends are closed      */
    struct fusion_buffer buffers[DISPATCHER_BUFFERS_MAX]; /* not in use              */
    int buffer_count;
    size_t waiting; /* batches not yet launched                           */
    bool has_said_staged; /* a line of the log                                  */
};

/** An empty batch of a lane of a set; NULL when out of memory. */
struct batch *dispatcher_batch_new(
        struct tutti *t, struct process_set *set, uint32_t lane);
/** Adds a work to it; false when out of memory. */
bool dispatcher_batch_add(
        struct dispatcher *dispatcher, struct batch *batch, struct work *work);
/** Leaves out members of the set; NULL: none. False when out of memory. */
bool dispatcher_batch_without(struct batch *batch, const struct bitset *absent);
/** Room for parts in a batch; NULL when out of memory. */
struct op_part *batch_parts(struct batch *batch, size_t count);
/** Queues it behind the earlier ones of its lane. */
void dispatcher_submit(struct tutti *t, struct batch *batch);
/*
 * Riders: batches of plans that are launched before all ranks are known to be there, and
 * walks (riders.c). An index is that in the epoch of the plan.
 */

/** True when a backend would take such a batch and let it ride. */
bool dispatcher_rides(const struct dispatcher *dispatcher, const struct op_batch *op);
/** Queues a batch whose works are BEGUN. */
void dispatcher_begin(struct tutti *t, struct batch *batch, uint64_t index);
/** All have arrived at a batch that was begun: it goes on. @return its works */
size_t dispatcher_agree(
        struct tutti *t, struct process_set *set, uint32_t lane, uint64_t index);
/** Drops the batches that ride from index `from` on: they end without their works. */
void dispatcher_drop(struct process_set *set, uint32_t lane, uint64_t from);
/** Queues walks of the batches of [first, first + count). */
tutti_status dispatcher_walk(struct tutti *t, struct process_set *set, uint32_t lane,
        uint64_t first, uint64_t count);
/** The batch of an index, when it rides or walks and is launched; else NULL. */
const struct batch *dispatcher_rider(
        const struct process_set *set, uint32_t lane, uint64_t index);
/** Drops what a set that is removed has not launched; what it has goes on to its end. */
void dispatcher_forget(struct tutti *t, struct process_set *set);
/** A batch that was dropped, or walked, has ended. */
void dispatcher_rider_ends(struct tutti *t, struct batch *batch);
/** Launches and steps. Sets *moved when anything happened. */
tutti_status dispatcher_run(struct tutti *t, bool *moved);
/**
 * Gives up everything, after the context failed. False while another rank still works on
 * this rank's memory: call again before the works that are RUNNING end.
 */
bool dispatcher_cancel_all(struct tutti *t);
/** Lets backends look whether the other ranks still live. */
tutti_status dispatcher_watch(const struct dispatcher *dispatcher);
/** True when there is nothing launched and nothing waiting. */
bool dispatcher_is_idle(const struct dispatcher *dispatcher);
void dispatcher_fini(struct tutti *t);

#endif
