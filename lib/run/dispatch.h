/*
 * The dispatcher: launches agreed batches on backends, in the order of each process set,
 * with a window of batches in flight for each, and steps them until they are final.
 * Sets do not wait for each other. Engine only.
 */
#ifndef TUTTI_RUN_DISPATCH_H
#define TUTTI_RUN_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/op.h"
#include "run/batch.h"

struct memory;
struct process_set;
struct tutti;

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

/** Zeroed is valid. */
struct dispatcher {
    const struct memory
            *memory; /* for fusion buffers; fixed                          */
    struct dispatcher_backend backends[DISPATCHER_BACKENDS_MAX]; /* best first       */
    int backend_count;
    size_t task_bytes; /* largest of the backends                            */
    size_t operations_max; /* room of the batch with most: what others grow to   */
    struct batch *running; /* over next                                          */
    struct batch *spare; /* over next                                          */
    struct batch *cancelled; /* over next; kept until the backends are closed      */
    struct fusion_buffer buffers[DISPATCHER_BUFFERS_MAX]; /* not in use              */
    int buffer_count;
    size_t waiting; /* batches not yet launched                           */
    bool has_said_staged; /* a line of the log                                  */
};

/** Queues it behind the earlier ones of its set. */
void dispatch_queue(struct tutti *t, struct batch *batch);
/** Drops what a set that is removed has not launched. */
void dispatch_forget(struct dispatcher *dispatcher, struct process_set *set);
/** Launches and steps. Sets *moved when anything happened. */
tutti_status dispatch_run(struct tutti *t, bool *moved);
/**
 * Gives up everything, after the context failed. False while another rank still works on
 * this rank's memory: call again before the operations that are RUNNING end.
 */
bool dispatch_cancel_all(struct tutti *t);
/** Lets backends look whether the other ranks still live. */
tutti_status dispatch_watch(const struct dispatcher *dispatcher);
void dispatch_fini(struct tutti *t);

#endif
